/*
 * A target for libFuzzer: reads its input as both classes of readers, and uses all that they return.
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -o fuzz tests/fuzz.c
 *     ./fuzz CORPUS ../../tests/fuzzing/corpus/onnxz
 */
#define ONNXZ_IMPLEMENTATION
#include "../onnxz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

static void expect(int holds) {
    if (!holds) abort();
}

/* Whether the bytes are all inside of the input. It is not enough that they can be read. */
static int is_inside(const void *at, size_t count, const uint8_t *data, size_t nbytes) {
    const uint8_t *bytes = (const uint8_t *)at;
    return bytes >= data && count <= nbytes && (size_t)(bytes - data) <= nbytes - count;
}

static int read_all(const uint8_t *data, size_t nbytes, onnxz_class reader) {
    onnxz_error error;
    size_t i;
    onnxz_archive *archive = onnxz_parse(data, nbytes, reader, NULL, &error);
    if (archive == NULL) {
        expect(error.requirement[0] == 'Z' && error.message[0] != 0);
        return 0;
    }
    for (i = 0; i < onnxz_entry_count(archive); i++) {
        const onnxz_entry *entry = onnxz_entry_at(archive, i);
        expect(is_inside(entry->bytes, entry->nbytes, data, nbytes) && entry->bytes == data + entry->offset);
        expect(onnxz_find(archive, entry->name) == entry);
        expect(i == 0 || entry[-1].bytes + entry[-1].nbytes <= entry->bytes);
    }
    for (i = 0; i < onnxz_tensor_count(archive); i++) {
        const onnxz_tensor *tensor = onnxz_tensor_at(archive, i);
        size_t axis;
        expect(tensor->entry->kind == ONNXZ_TENSOR && tensor->graph->kind >= ONNXZ_GRAPH);
        expect(tensor->name_nbytes == 0 || is_inside(tensor->name, tensor->name_nbytes, data, nbytes));
        for (axis = 0; axis < tensor->rank; axis++) expect(tensor->dims[axis] >= 0);
    }
    onnxz_close(archive);
    return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes) {
    int is_strict = read_all(data, nbytes, ONNXZ_STRICT);
    int is_loading = read_all(data, nbytes, ONNXZ_LOADING);
    expect(is_loading >= is_strict); /* a loading reader accepts what a strict reader accepts */
    return 0;
}
