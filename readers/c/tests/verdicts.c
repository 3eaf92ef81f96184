/*
 * Reads paths of files from standard input, one per line. For each it prints a line of JSON: the content of the archive,
 * or the requirement that it breaks, as readers/rust/examples/verdicts.rs does. With --loading, it is a loading reader.
 */
#define ONNXZ_IMPLEMENTATION
#include "../onnxz.h"

#include "sha256.h"

static void print_place(const onnxz_entry *entry, int is_first) {
    printf("%s[\"%s\",%" PRIu64 ",%" PRIu64 "]", is_first ? "" : ",", entry->name, entry->offset, (uint64_t)entry->nbytes);
}

static void print_archive(const onnxz_archive *archive) {
    size_t i, count = onnxz_entry_count(archive);
    const onnxz_entry *graph = onnxz_entry_at(archive, count - 1);
    char digest[65];
    sha256_hex(graph->bytes, graph->nbytes, digest);
    printf("{\"ok\":true,\"graph\":\"%s\",\"entries\":[", digest);
    for (i = 0; i < count; i++) print_place(onnxz_entry_at(archive, i), i == 0);
    printf("],\"tensors\":[");
    for (i = 0; i < onnxz_tensor_count(archive); i++) print_place(onnxz_tensor_at(archive, i)->entry, i == 0);
    printf("]}\n");
}

static void print_error(const onnxz_error *error) {
    const char *c;
    printf("{\"ok\":false,\"requirement\":\"%s\",\"message\":\"", error->requirement);
    for (c = error->message; *c != 0; c++) printf(*c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
    printf("\"}\n");
}

int main(int count, char **arguments) {
    onnxz_class reader = count > 1 && strcmp(arguments[1], "--loading") == 0 ? ONNXZ_LOADING : ONNXZ_STRICT;
    char path[4096];
    while (fgets(path, sizeof path, stdin) != NULL) {
        onnxz_error error;
        onnxz_archive *archive;
        path[strcspn(path, "\n")] = 0;
        archive = onnxz_open(path, reader, NULL, &error);
        if (archive == NULL) print_error(&error);
        else print_archive(archive);
        onnxz_close(archive);
        fflush(stdout); /* the caller may wait for this answer before it sends the next path */
    }
    return 0;
}
