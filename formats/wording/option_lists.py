"""What the options of each function do, for its help; `schemas/generate.py` makes this from the classes of options."""

_READ = """\
max_depth=N: Refuse messages nested more than N deep, at most 250; 100 by default.
hard_links=False: Refuse data files with more than one name (hard links).
model=NAME: Read this model of an archive that holds several.
key: The key of an encrypted model.
allow_encryption=1: Also open files with AES-256-CBC, which does not detect changed or forged files.
storage_options: Options of the store.
retries=N: Repeat a request that fails temporarily up to N times; 2 by default.
"""
_RAISE = """\
pin: Give inputs or outputs types by name that .rten files lack, such as {'input_ids': 'int64'}.
"""
_WRITE = """\
metadata: Texts of the metadata, such as {'license': 'MIT'}; an empty one removes the key.
threads=N: Use N threads; 0, the default, chooses a suitable number.
chunk_bytes: The number of bytes that a thread moves at a time. Default: 1048576.
in_flight_bytes: The maximum number of bytes in memory at a time, for all threads. Default: 268435456.
overwrite=True: Replace files that exist.
parents=True: Make missing parent folders.
dry_run=True: Change nothing; say what would be done.
fsync=True: Force files to disk; by default only files that replace others.
progress: A function that is called from time to time with the bytes done and the bytes to do.
storage_options: Options of the store.
retries=N: Repeat a request that fails temporarily up to N times; 2 by default.
clean=True: Remove data files of a replaced model that nothing else in its folder uses.
backup=True: Keep a replaced model.onnx, with its data files, as model.bak.onnx.
pin: Give inputs or outputs types by name that .rten files lack, such as {'input_ids': 'int64'}.
runtime=NAME[==RELEASE]: Write for a runtime: ONNX that RTen's loader runs (rten), a .rten file for a
    release and later ones (rten==0.27), ONNX that a release reads (onnxruntime==1.18).
opset=N: Convert ONNX's operators to version N of their set, up or down.
ir_version=N: Write the model in IR version N.
dtype='float16': Write float32 weights and values as float16.
keep_io_types=True: Write float16, but keep the types of inputs and outputs, with casts.
external_data: Put weights into a file next to DST, named DST.data or NAME.
external_data=False: Put all weights into DST itself.
size_threshold=SIZE: Move tensors of at least SIZE out of the graph; 1K by default.
alignment=SIZE: Put each of these tensors at a multiple of SIZE; 64 by default, 256 for .safetensors.
max_external_file_size=SIZE: Start another data file before one exceeds SIZE; by default, there is no limit.
one_file_per_tensor=True: Put each weight into a separate file.
checksum=True: Store the SHA-1 of each data file, for `formats verify --data`.
data_names='transformers.js': Name data files as transformers.js loads them, each small enough for browsers,
    and print their setting.
link=True: Leave the weights in SRC, an .onnxz archive in the folder of DST, and write a graph that refers
    to them.
dedup=True: Store equal weights only once.
sha256=True: Add the SHA-256 of each entry, for `sha256sum -c` and signatures.
onnx_hash=True: Store the SHA-256 of the .onnx file; by default only below 64 MiB.
exact=True: Avoid operators whose results in RTen differ from ONNX.
rten_version=1 or 2: Version of the file; 2 by default.
source_hash: The bytes of the .onnx file, for `onnx_hash`.
key: The key of an encrypted model.
encryption=1 or 2 or 3: Encrypt with AES-256-CBC (1), which does not detect tampering, ChaCha20-Poly1305
    (2), or AES-256-GCM (3, the default).
"""
_CONVERT = """\
max_depth=N: Refuse messages nested more than N deep, at most 250; 100 by default.
hard_links=False: Refuse data files with more than one name (hard links).
model=NAME: Read this model of an archive that holds several.
key: The key of an encrypted model.
allow_encryption=1: Also open files with AES-256-CBC, which does not detect changed or forged files.
storage_options: Options of the store.
retries=N: Repeat a request that fails temporarily up to N times; 2 by default.
metadata: Texts of the metadata, such as {'license': 'MIT'}; an empty one removes the key.
threads=N: Use N threads; 0, the default, chooses a suitable number.
chunk_bytes: The number of bytes that a thread moves at a time. Default: 1048576.
in_flight_bytes: The maximum number of bytes in memory at a time, for all threads. Default: 268435456.
overwrite=True: Replace files that exist.
parents=True: Make missing parent folders.
dry_run=True: Change nothing; say what would be done.
fsync=True: Force files to disk; by default only files that replace others.
progress: A function that is called from time to time with the bytes done and the bytes to do.
clean=True: Remove data files of a replaced model that nothing else in its folder uses.
backup=True: Keep a replaced model.onnx, with its data files, as model.bak.onnx.
pin: Give inputs or outputs types by name that .rten files lack, such as {'input_ids': 'int64'}.
runtime=NAME[==RELEASE]: Write for a runtime: ONNX that RTen's loader runs (rten), a .rten file for a
    release and later ones (rten==0.27), ONNX that a release reads (onnxruntime==1.18).
opset=N: Convert ONNX's operators to version N of their set, up or down.
ir_version=N: Write the model in IR version N.
dtype='float16': Write float32 weights and values as float16.
keep_io_types=True: Write float16, but keep the types of inputs and outputs, with casts.
external_data: Put weights into a file next to DST, named DST.data or NAME.
external_data=False: Put all weights into DST itself.
size_threshold=SIZE: Move tensors of at least SIZE out of the graph; 1K by default.
alignment=SIZE: Put each of these tensors at a multiple of SIZE; 64 by default, 256 for .safetensors.
max_external_file_size=SIZE: Start another data file before one exceeds SIZE; by default, there is no limit.
one_file_per_tensor=True: Put each weight into a separate file.
checksum=True: Store the SHA-1 of each data file, for `formats verify --data`.
data_names='transformers.js': Name data files as transformers.js loads them, each small enough for browsers,
    and print their setting.
link=True: Leave the weights in SRC, an .onnxz archive in the folder of DST, and write a graph that refers
    to them.
dedup=True: Store equal weights only once.
sha256=True: Add the SHA-256 of each entry, for `sha256sum -c` and signatures.
onnx_hash=True: Store the SHA-256 of the .onnx file; by default only below 64 MiB.
exact=True: Avoid operators whose results in RTen differ from ONNX.
rten_version=1 or 2: Version of the file; 2 by default.
source_hash: The bytes of the .onnx file, for `onnx_hash`.
encryption=1 or 2 or 3: Encrypt with AES-256-CBC (1), which does not detect tampering, ChaCha20-Poly1305
    (2), or AES-256-GCM (3, the default).
"""
_EDIT = """\
weights: A .safetensors file, an index of several, an .npz or a model file, or arrays by name.
dim: Sizes or names of dims, such as {'batch': 1}, or of an axis of an input, {'images:0': 4}.
rename: New names of values, such as {'input.1': 'images'}.
max_depth=N: Refuse messages nested more than N deep, at most 250; 100 by default.
hard_links=False: Refuse data files with more than one name (hard links).
model=NAME: Read this model of an archive that holds several.
key: The key of an encrypted model.
allow_encryption=1: Also open files with AES-256-CBC, which does not detect changed or forged files.
storage_options: Options of the store.
retries=N: Repeat a request that fails temporarily up to N times; 2 by default.
metadata: Texts of the metadata, such as {'license': 'MIT'}; an empty one removes the key.
threads=N: Use N threads; 0, the default, chooses a suitable number.
chunk_bytes: The number of bytes that a thread moves at a time. Default: 1048576.
in_flight_bytes: The maximum number of bytes in memory at a time, for all threads. Default: 268435456.
overwrite=True: Replace files that exist.
parents=True: Make missing parent folders.
dry_run=True: Change nothing; say what would be done.
fsync=True: Force files to disk; by default only files that replace others.
progress: A function that is called from time to time with the bytes done and the bytes to do.
clean=True: Remove data files of a replaced model that nothing else in its folder uses.
backup=True: Keep a replaced model.onnx, with its data files, as model.bak.onnx.
pin: Give inputs or outputs types by name that .rten files lack, such as {'input_ids': 'int64'}.
runtime=NAME[==RELEASE]: Write for a runtime: ONNX that RTen's loader runs (rten), a .rten file for a
    release and later ones (rten==0.27), ONNX that a release reads (onnxruntime==1.18).
opset=N: Convert ONNX's operators to version N of their set, up or down.
ir_version=N: Write the model in IR version N.
dtype='float16': Write float32 weights and values as float16.
keep_io_types=True: Write float16, but keep the types of inputs and outputs, with casts.
external_data: Put weights into a file next to DST, named DST.data or NAME.
external_data=False: Put all weights into DST itself.
size_threshold=SIZE: Move tensors of at least SIZE out of the graph; 1K by default.
alignment=SIZE: Put each of these tensors at a multiple of SIZE; 64 by default, 256 for .safetensors.
max_external_file_size=SIZE: Start another data file before one exceeds SIZE; by default, there is no limit.
one_file_per_tensor=True: Put each weight into a separate file.
checksum=True: Store the SHA-1 of each data file, for `formats verify --data`.
data_names='transformers.js': Name data files as transformers.js loads them, each small enough for browsers,
    and print their setting.
link=True: Leave the weights in SRC, an .onnxz archive in the folder of DST, and write a graph that refers
    to them.
dedup=True: Store equal weights only once.
sha256=True: Add the SHA-256 of each entry, for `sha256sum -c` and signatures.
onnx_hash=True: Store the SHA-256 of the .onnx file; by default only below 64 MiB.
exact=True: Avoid operators whose results in RTen differ from ONNX.
rten_version=1 or 2: Version of the file; 2 by default.
source_hash: The bytes of the .onnx file, for `onnx_hash`.
encryption=1 or 2 or 3: Encrypt with AES-256-CBC (1), which does not detect tampering, ChaCha20-Poly1305
    (2), or AES-256-GCM (3, the default).
"""
_EXTRACT = """\
inputs=NAMES: The values that become inputs, separated by commas; those of the model by default. A comma in
    a name needs a backslash before it.
outputs=NAMES: The values that become outputs, separated by commas; those of the model by default. A comma
    in a name needs a backslash before it.
tensor=NAME: Write only this weight, to a .npy or .safetensors file.
max_depth=N: Refuse messages nested more than N deep, at most 250; 100 by default.
hard_links=False: Refuse data files with more than one name (hard links).
model=NAME: Read this model of an archive that holds several.
key: The key of an encrypted model.
allow_encryption=1: Also open files with AES-256-CBC, which does not detect changed or forged files.
storage_options: Options of the store.
retries=N: Repeat a request that fails temporarily up to N times; 2 by default.
metadata: Texts of the metadata, such as {'license': 'MIT'}; an empty one removes the key.
threads=N: Use N threads; 0, the default, chooses a suitable number.
chunk_bytes: The number of bytes that a thread moves at a time. Default: 1048576.
in_flight_bytes: The maximum number of bytes in memory at a time, for all threads. Default: 268435456.
overwrite=True: Replace files that exist.
parents=True: Make missing parent folders.
dry_run=True: Change nothing; say what would be done.
fsync=True: Force files to disk; by default only files that replace others.
progress: A function that is called from time to time with the bytes done and the bytes to do.
clean=True: Remove data files of a replaced model that nothing else in its folder uses.
backup=True: Keep a replaced model.onnx, with its data files, as model.bak.onnx.
pin: Give inputs or outputs types by name that .rten files lack, such as {'input_ids': 'int64'}.
runtime=NAME[==RELEASE]: Write for a runtime: ONNX that RTen's loader runs (rten), a .rten file for a
    release and later ones (rten==0.27), ONNX that a release reads (onnxruntime==1.18).
opset=N: Convert ONNX's operators to version N of their set, up or down.
ir_version=N: Write the model in IR version N.
dtype='float16': Write float32 weights and values as float16.
keep_io_types=True: Write float16, but keep the types of inputs and outputs, with casts.
external_data: Put weights into a file next to DST, named DST.data or NAME.
external_data=False: Put all weights into DST itself.
size_threshold=SIZE: Move tensors of at least SIZE out of the graph; 1K by default.
alignment=SIZE: Put each of these tensors at a multiple of SIZE; 64 by default, 256 for .safetensors.
max_external_file_size=SIZE: Start another data file before one exceeds SIZE; by default, there is no limit.
one_file_per_tensor=True: Put each weight into a separate file.
checksum=True: Store the SHA-1 of each data file, for `formats verify --data`.
data_names='transformers.js': Name data files as transformers.js loads them, each small enough for browsers,
    and print their setting.
link=True: Leave the weights in SRC, an .onnxz archive in the folder of DST, and write a graph that refers
    to them.
dedup=True: Store equal weights only once.
sha256=True: Add the SHA-256 of each entry, for `sha256sum -c` and signatures.
onnx_hash=True: Store the SHA-256 of the .onnx file; by default only below 64 MiB.
exact=True: Avoid operators whose results in RTen differ from ONNX.
rten_version=1 or 2: Version of the file; 2 by default.
source_hash: The bytes of the .onnx file, for `onnx_hash`.
encryption=1 or 2 or 3: Encrypt with AES-256-CBC (1), which does not detect tampering, ChaCha20-Poly1305
    (2), or AES-256-GCM (3, the default).
"""
_MERGE = """\
connect: Inputs of the second model by outputs of the first one, such as {'features': 'input'}.
prefix=PREFIX: Begin all names of B with PREFIX; by default, names that meet get a number.
max_depth=N: Refuse messages nested more than N deep, at most 250; 100 by default.
hard_links=False: Refuse data files with more than one name (hard links).
model=NAME: Read this model of an archive that holds several.
key: The key of an encrypted model.
allow_encryption=1: Also open files with AES-256-CBC, which does not detect changed or forged files.
storage_options: Options of the store.
retries=N: Repeat a request that fails temporarily up to N times; 2 by default.
metadata: Texts of the metadata, such as {'license': 'MIT'}; an empty one removes the key.
threads=N: Use N threads; 0, the default, chooses a suitable number.
chunk_bytes: The number of bytes that a thread moves at a time. Default: 1048576.
in_flight_bytes: The maximum number of bytes in memory at a time, for all threads. Default: 268435456.
overwrite=True: Replace files that exist.
parents=True: Make missing parent folders.
dry_run=True: Change nothing; say what would be done.
fsync=True: Force files to disk; by default only files that replace others.
progress: A function that is called from time to time with the bytes done and the bytes to do.
clean=True: Remove data files of a replaced model that nothing else in its folder uses.
backup=True: Keep a replaced model.onnx, with its data files, as model.bak.onnx.
pin: Give inputs or outputs types by name that .rten files lack, such as {'input_ids': 'int64'}.
runtime=NAME[==RELEASE]: Write for a runtime: ONNX that RTen's loader runs (rten), a .rten file for a
    release and later ones (rten==0.27), ONNX that a release reads (onnxruntime==1.18).
opset=N: Convert ONNX's operators to version N of their set, up or down.
ir_version=N: Write the model in IR version N.
dtype='float16': Write float32 weights and values as float16.
keep_io_types=True: Write float16, but keep the types of inputs and outputs, with casts.
external_data: Put weights into a file next to DST, named DST.data or NAME.
external_data=False: Put all weights into DST itself.
size_threshold=SIZE: Move tensors of at least SIZE out of the graph; 1K by default.
alignment=SIZE: Put each of these tensors at a multiple of SIZE; 64 by default, 256 for .safetensors.
max_external_file_size=SIZE: Start another data file before one exceeds SIZE; by default, there is no limit.
one_file_per_tensor=True: Put each weight into a separate file.
checksum=True: Store the SHA-1 of each data file, for `formats verify --data`.
data_names='transformers.js': Name data files as transformers.js loads them, each small enough for browsers,
    and print their setting.
link=True: Leave the weights in SRC, an .onnxz archive in the folder of DST, and write a graph that refers
    to them.
dedup=True: Store equal weights only once.
sha256=True: Add the SHA-256 of each entry, for `sha256sum -c` and signatures.
onnx_hash=True: Store the SHA-256 of the .onnx file; by default only below 64 MiB.
exact=True: Avoid operators whose results in RTen differ from ONNX.
rten_version=1 or 2: Version of the file; 2 by default.
source_hash: The bytes of the .onnx file, for `onnx_hash`.
encryption=1 or 2 or 3: Encrypt with AES-256-CBC (1), which does not detect tampering, ChaCha20-Poly1305
    (2), or AES-256-GCM (3, the default).
"""
_JOB = """\
max_depth=N: Refuse messages nested more than N deep, at most 250; 100 by default.
hard_links=False: Refuse data files with more than one name (hard links).
model=NAME: Read this model of an archive that holds several.
key: The key of an encrypted model.
allow_encryption=1: Also open files with AES-256-CBC, which does not detect changed or forged files.
storage_options: Options of the store.
retries=N: Repeat a request that fails temporarily up to N times; 2 by default.
metadata: Texts of the metadata, such as {'license': 'MIT'}; an empty one removes the key.
threads=N: Use N threads; 0, the default, chooses a suitable number.
chunk_bytes: The number of bytes that a thread moves at a time. Default: 1048576.
in_flight_bytes: The maximum number of bytes in memory at a time, for all threads. Default: 268435456.
overwrite=True: Replace files that exist.
parents=True: Make missing parent folders.
dry_run=True: Change nothing; say what would be done.
fsync=True: Force files to disk; by default only files that replace others.
progress: A function that is called from time to time with the bytes done and the bytes to do.
clean=True: Remove data files of a replaced model that nothing else in its folder uses.
backup=True: Keep a replaced model.onnx, with its data files, as model.bak.onnx.
pin: Give inputs or outputs types by name that .rten files lack, such as {'input_ids': 'int64'}.
runtime=NAME[==RELEASE]: Write for a runtime: ONNX that RTen's loader runs (rten), a .rten file for a
    release and later ones (rten==0.27), ONNX that a release reads (onnxruntime==1.18).
opset=N: Convert ONNX's operators to version N of their set, up or down.
ir_version=N: Write the model in IR version N.
dtype='float16': Write float32 weights and values as float16.
keep_io_types=True: Write float16, but keep the types of inputs and outputs, with casts.
external_data: Put weights into a file next to DST, named DST.data or NAME.
external_data=False: Put all weights into DST itself.
size_threshold=SIZE: Move tensors of at least SIZE out of the graph; 1K by default.
alignment=SIZE: Put each of these tensors at a multiple of SIZE; 64 by default, 256 for .safetensors.
max_external_file_size=SIZE: Start another data file before one exceeds SIZE; by default, there is no limit.
one_file_per_tensor=True: Put each weight into a separate file.
checksum=True: Store the SHA-1 of each data file, for `formats verify --data`.
data_names='transformers.js': Name data files as transformers.js loads them, each small enough for browsers,
    and print their setting.
link=True: Leave the weights in SRC, an .onnxz archive in the folder of DST, and write a graph that refers
    to them.
dedup=True: Store equal weights only once.
sha256=True: Add the SHA-256 of each entry, for `sha256sum -c` and signatures.
onnx_hash=True: Store the SHA-256 of the .onnx file; by default only below 64 MiB.
exact=True: Avoid operators whose results in RTen differ from ONNX.
rten_version=1 or 2: Version of the file; 2 by default.
source_hash: The bytes of the .onnx file, for `onnx_hash`.
encryption=1 or 2 or 3: Encrypt with AES-256-CBC (1), which does not detect tampering, ChaCha20-Poly1305
    (2), or AES-256-GCM (3, the default).
from_format=FORMAT: The format to read, if the content does not show it.
to_format=FORMAT: The format to write, if not that of DST's extension: onnx, onnxz, rten, ort, onnxc,
    textproto, json.
strict=True: Refuse a conversion whose report has a warning.
allow: With `strict`, kinds of losses that pass, such as ('metadata', 'range').
lenient=True: Read an .onnxz file that another zip tool made.
"""
_SHARE = """\
external_data=NAME: Name the file with the weights that all models share NAME; shared.data by default.
size_threshold=SIZE: Move tensors of at least SIZE out of the graph; 1K by default.
alignment=SIZE: Put each of these tensors at a multiple of SIZE; 4K by default.
max_depth=N: Refuse messages nested more than N deep, at most 250; 100 by default.
hard_links=False: Refuse data files with more than one name (hard links).
model=NAME: Read this model of an archive that holds several.
key: The key of an encrypted model.
allow_encryption=1: Also open files with AES-256-CBC, which does not detect changed or forged files.
storage_options: Options of the store.
retries=N: Repeat a request that fails temporarily up to N times; 2 by default.
threads=N: Use N threads; 0, the default, chooses a suitable number.
chunk_bytes: The number of bytes that a thread moves at a time. Default: 1048576.
in_flight_bytes: The maximum number of bytes in memory at a time, for all threads. Default: 268435456.
overwrite=True: Replace files that exist.
parents=True: Make missing parent folders.
dry_run=True: Change nothing; say what would be done.
fsync=True: Force files to disk; by default only files that replace others.
progress: A function that is called from time to time with the bytes done and the bytes to do.
clean=True: Remove data files of a replaced model that nothing else in its folder uses.
backup=True: Keep a replaced model.onnx, with its data files, as model.bak.onnx.
"""
_PACK = """\
default=NAME: Make this model the default one.
size_threshold=SIZE: Move tensors of at least SIZE out of the graph; 1K by default.
alignment=SIZE: Put each of these tensors at a multiple of SIZE; 64 by default.
max_depth=N: Refuse messages nested more than N deep, at most 250; 100 by default.
hard_links=False: Refuse data files with more than one name (hard links).
model=NAME: Read this model of an archive that holds several.
key: The key of an encrypted model.
allow_encryption=1: Also open files with AES-256-CBC, which does not detect changed or forged files.
storage_options: Options of the store.
retries=N: Repeat a request that fails temporarily up to N times; 2 by default.
threads=N: Use N threads; 0, the default, chooses a suitable number.
chunk_bytes: The number of bytes that a thread moves at a time. Default: 1048576.
in_flight_bytes: The maximum number of bytes in memory at a time, for all threads. Default: 268435456.
overwrite=True: Replace files that exist.
parents=True: Make missing parent folders.
dry_run=True: Change nothing; say what would be done.
fsync=True: Force files to disk; by default only files that replace others.
progress: A function that is called from time to time with the bytes done and the bytes to do.
"""
_PLACE = """\
overwrite=True: Replace the model at DST and its data files, but no other files.
parents=True: Make missing parent folders.
dry_run=True: Change nothing; say what would be done.
fsync=True: Force files to disk; by default only files that replace others.
progress: A function that is called from time to time with the bytes done and the bytes to do.
clean=True: Remove data files of a replaced model that nothing else in its folder uses.
backup=True: Keep a replaced model.onnx, with its data files, as model.bak.onnx.
"""
_OF_CONVERT = """\
from_format=FORMAT: The format to read, if the content does not show it.
to_format=FORMAT: The format to write, if not that of DST's extension: onnx, onnxz, rten, ort, onnxc,
    textproto, json.
strict=True: Refuse a conversion whose report has a warning.
allow: With `strict`, kinds of losses that pass, such as ('metadata', 'range').
lenient=True: Read an .onnxz file that another zip tool made.
"""
_OF_SAVE = """\
strict=True: Refuse a conversion whose report has a warning.
allow: With `strict`, kinds of losses that pass, such as ('metadata', 'range').
"""
_OF_LOAD = """\
lenient=True: Read an .onnxz file that another zip tool made.
"""
_OF_DIFF = """\
progress: A function that is called from time to time with the bytes done and the bytes to do.
"""
_OF_LINK = """\
overwrite=True: Replace files that exist.
fsync=True: Force files to disk; by default only files that replace others.
"""
_OF_UNPACK = """\
overwrite=True: Replace files that exist.
parents=True: Make missing parent folders.
progress: A function that is called from time to time with the bytes done and the bytes to do.
"""
_OF_VERIFY = """\
threads=N: Use N threads; 0, the default, chooses a suitable number.
progress: A function that is called from time to time with the bytes done and the bytes to do.
"""

OPTIONS = {
    "convert_many": _JOB,
    "files": _READ,
    "convert": _OF_CONVERT + _CONVERT,
    "dumps": _WRITE,
    "save": _OF_SAVE + _WRITE,
    "load": _OF_LOAD + _READ,
    "loads": _READ,
    "raise_model": _RAISE,
    "edit": _OF_CONVERT + _EDIT,
    "extract": _OF_CONVERT + _EXTRACT,
    "merge": _OF_CONVERT + _MERGE,
    "diff": _OF_DIFF + _READ,
    "inspect": _READ,
    "link": _OF_LINK + _READ,
    "pack": _PACK,
    "unpack": _OF_UNPACK,
    "cp": _PLACE,
    "mv": _PLACE,
    "share": _SHARE,
    "verify": _OF_VERIFY + _READ,
}
