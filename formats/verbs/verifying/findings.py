"""What `verify` can find: a code for each finding, with its kind, whether it is an error, and what it means."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """Something that is wrong or remarkable in a model file."""

    kind: str  # a stable word for programs: `CODES` has all
    where: str  # a dotted place in the model, an entry or a file; "" for all of it
    detail: str  # one sentence for people
    code: str  # a key of `CODES`: stable, too, and narrower than the kind


class Rule(NamedTuple):
    """What a code stands for."""

    kind: str
    is_error: bool  # else a note
    title: str


ERROR, NOTE = True, False
HIDDEN = "V110"

# The page docs/verify.md has this table, and a test compares the two. A code never changes its meaning.
CODES: dict[str, Rule] = {
    # the file and its data
    "V101": Rule("structure", ERROR, "the file cannot be read as its format requires"),
    "V102": Rule("encryption", ERROR, "the key is missing or wrong, or changes of an encrypted part cannot be noticed"),
    "V103": Rule("encryption", NOTE, "a part of an encrypted file is not protected as the format intends"),
    "V104": Rule("missing", ERROR, "a data file is missing or too short"),
    "V105": Rule("checksum", ERROR, "a checksum differs, or the data of one cannot be read"),
    "V106": Rule("checksum", NOTE, "the file has no checksum of the original"),
    "V107": Rule("metadata", ERROR, "several entries of the metadata have one key"),
    "V108": Rule("alignment", NOTE, "programs must copy weights before they can use them"),
    "V109": Rule("gap", NOTE, "no weight uses some bytes of a data file"),
    HIDDEN: Rule("hidden", NOTE, "a strange hidden file is next to the model"),
    "V111": Rule("interrupted", NOTE, "a write did not end; `formats repair` completes it"),
    # versions and operator sets
    "V201": Rule("version", ERROR, "the model has no ir_version"),
    "V202": Rule("version", ERROR, "the ir_version is newer than is known, so the model cannot be checked"),
    "V203": Rule("version", ERROR, "a model whose ir_version is below 3 imports operator sets"),
    "V204": Rule("version", ERROR, "a model without nodes imports no operator set"),
    "V205": Rule("version", ERROR, "the version of an operator set is missing or below 1"),
    "V206": Rule(
        "version", NOTE, "the version of an operator set is newer than is known; its operators are not checked"
    ),
    "V207": Rule("version", ERROR, "a field or a type is newer than the ir_version"),
    "V208": Rule("opset", ERROR, "an operator set is imported in several versions"),
    "V209": Rule("opset", ERROR, "an operator set that nodes need is not imported"),
    "V210": Rule("opset", NOTE, "nodes and imports write the domain of ONNX in two ways"),
    "V211": Rule("opset", ERROR, "a function and the model import versions in which an operator differs"),
    # graphs and their names
    "V301": Rule("graph", ERROR, "a graph has no name"),
    "V302": Rule("graph", ERROR, "an initialiser has no name"),
    "V303": Rule("graph", ERROR, "an initialiser is not an input, which an ir_version below 4 requires"),
    "V304": Rule("graph", ERROR, "several inputs or initialisers have one name"),
    "V305": Rule("graph", ERROR, "a value is made twice"),
    "V306": Rule("graph", ERROR, "a node uses a value that nothing makes"),
    "V307": Rule("graph", ERROR, "a node comes before the node whose result it uses"),
    "V308": Rule("graph", ERROR, "nodes form a cycle: each needs the result of the one before"),
    "V309": Rule("graph", ERROR, "no node makes an output of the graph"),
    "V310": Rule("graph", ERROR, "an output of a graph in a node is a value of an outer graph"),
    "V311": Rule("graph", ERROR, "a result of a node has the name of a value of an outer graph"),
    "V312": Rule("graph", NOTE, "an input or initialiser has the name of a value of an outer graph"),
    "V313": Rule("graph", ERROR, "a node has neither inputs nor outputs"),
    "V314": Rule("graph", ERROR, "a function has no name"),
    "V315": Rule("graph", ERROR, "a function has no domain"),
    "V316": Rule("graph", ERROR, "several inputs, outputs or attributes of a function have one name"),
    "V317": Rule("graph", ERROR, "several functions have one domain, name and overload"),
    "V318": Rule("graph", ERROR, "functions call each other in a cycle"),
    "V319": Rule("graph", NOTE, "several nodes of a graph have one name"),
    # operators and attributes
    "V401": Rule("operator", ERROR, "a node has no op_type"),
    "V402": Rule("operator", ERROR, "an experimental operator, which was removed"),
    "V403": Rule("operator", NOTE, "an operator that only onnxruntime has"),
    "V404": Rule("operator", ERROR, "the operator set does not have the operator"),
    "V405": Rule("operator", ERROR, "the operator is deprecated"),
    "V406": Rule("operator", ERROR, "an operator or function has another number of inputs or outputs"),
    "V407": Rule("operator", ERROR, "an input or output is omitted that is not optional"),
    "V408": Rule("operator", NOTE, "the model has functions of this domain, but none with this name"),
    "V409": Rule("operator", ERROR, "a graph in a node has another number of inputs or outputs than the node needs"),
    "V411": Rule("attribute", ERROR, "an attribute has no name"),
    "V412": Rule("attribute", ERROR, "an attribute has no type"),
    "V413": Rule("attribute", ERROR, "an attribute has several values"),
    "V414": Rule("attribute", ERROR, "an attribute has a type, and a value of another one"),
    "V415": Rule("attribute", ERROR, "an attribute has a value, and refers to another attribute"),
    "V416": Rule("attribute", ERROR, "an attribute refers to one of a function, but is in none"),
    "V417": Rule("attribute", ERROR, "a node has an attribute twice"),
    "V418": Rule("attribute", ERROR, "the operator has no such attribute"),
    "V419": Rule("attribute", ERROR, "an attribute has another type than the operator's"),
    "V420": Rule("attribute", ERROR, "an attribute has no value"),
    "V421": Rule("attribute", ERROR, "an attribute is missing that the operator needs"),
    "V422": Rule("attribute", ERROR, "the operator does not take this value of an attribute"),
    # types and dims of values
    "V501": Rule("value", ERROR, "an input or output has no name"),
    "V502": Rule("value", ERROR, "an input or output has no type"),
    "V503": Rule("value", ERROR, "a type says nothing"),
    "V504": Rule("value", ERROR, "a type does not say what its elements are"),
    "V505": Rule("value", ERROR, "the element type is UNDEFINED"),
    "V506": Rule("value", ERROR, "the element type is unknown"),
    "V507": Rule("value", ERROR, "an input or output of the model has no shape, which ONNX requires"),
    "V508": Rule("value", NOTE, "a dim is negative"),
    "V509": Rule("value", ERROR, "an initialiser has another type or other dims than the input of its name"),
    "V511": Rule("type", ERROR, "the operator does not take this type"),
    "V512": Rule("type", ERROR, "inputs have different types, but the operator needs one for both"),
    "V513": Rule("type", ERROR, "a value has another type than the model declares"),
    "V514": Rule("type", ERROR, "a value of a graph in a node has another type than the node needs"),
    "V521": Rule("dims", ERROR, "the dims of inputs do not fit the operator"),
    "V522": Rule("dims", NOTE, "a value has other dims than the model declares"),
    # tensors
    "V601": Rule("tensor", ERROR, "a tensor has data in several fields, or in the field of another type"),
    "V602": Rule("tensor", ERROR, "a tensor with external data has no location, or data of its own"),
    "V603": Rule("tensor", ERROR, "the type or the dims of a tensor are wrong, or do not fit its data"),
    "V604": Rule("tensor", ERROR, "the parts of a sparse tensor do not fit each other"),
    "V605": Rule("tensor", ERROR, "an index of a sparse tensor is outside its dims, or not in order"),
    "V606": Rule("tensor", NOTE, "a small constant is in another file, which onnxruntime opens too late"),
}


def finding_of(code: str, where: str, detail: str) -> Finding:
    """A finding; its kind follows from its code."""
    return Finding(CODES[code].kind, where, detail, code)
