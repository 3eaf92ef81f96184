/*
 * Lists the entries and the external tensors of an archive, with the first numbers of each float tensor.
 *
 *     cc -std=c99 -o list list.c && ./list model.onnxz [MODEL]
 */
#define ONNXZ_IMPLEMENTATION
#include "../onnxz.h"

static void print_tensor(const onnxz_tensor *tensor) {
    size_t i;
    printf("%.*s: type %lu, dims [", (int)tensor->name_nbytes, tensor->name, (unsigned long)tensor->data_type);
    for (i = 0; i < tensor->rank; i++) printf("%s%" PRId64, i == 0 ? "" : ", ", tensor->dims[i]);
    printf("], in %s\n", tensor->entry->name);
    if (tensor->data_type != 1) return; /* FLOAT */
    for (i = 0; i < 4 && i < tensor->entry->nbytes / sizeof(float); i++) {
        float value; /* the alignment of an entry is free, so this copies; numbers in an archive are little-endian */
        memcpy(&value, tensor->entry->bytes + i * sizeof value, sizeof value);
        printf("  %g", (double)value);
    }
    printf("\n");
}

int main(int count, char **arguments) {
    static const char *const kinds[] = {"tensor", "file", "hashes", "graph", "default graph"};
    size_t i;
    onnxz_error error;
    onnxz_archive *archive;
    if (count != 2 && count != 3) {
        fprintf(stderr, "usage: list ARCHIVE [MODEL]\n");
        return 2;
    }
    archive = onnxz_open(arguments[1], ONNXZ_STRICT, count == 3 ? arguments[2] : NULL, &error);
    if (archive == NULL) {
        fprintf(stderr, "%s: %s%s%s\n", arguments[1], error.message, *error.requirement ? ", requirement " : "", error.requirement);
        return 1;
    }
    for (i = 0; i < onnxz_entry_count(archive); i++) {
        const onnxz_entry *entry = onnxz_entry_at(archive, i);
        printf("%s: %s, %" PRIu64 " bytes at %" PRIu64 "\n", entry->name, kinds[entry->kind], (uint64_t)entry->nbytes, entry->offset);
    }
    for (i = 0; i < onnxz_tensor_count(archive); i++) {
        const onnxz_tensor *tensor = onnxz_tensor_at(archive, i);
        const char *model = onnxz_model_name(tensor->graph);
        if (count == 2 || (model != NULL && strcmp(model, arguments[2]) == 0)) print_tensor(tensor);
    }
    onnxz_close(archive);
    return 0;
}
