/*
 * Makes a session of onnxruntime from an archive, with the weights in place. Prints its inputs and outputs.
 *
 *     cc -std=c99 -I ORT/include -o onnxruntime onnxruntime.c -L ORT/lib -lonnxruntime
 *     ./onnxruntime FOLDER model.onnxz [MODEL]
 *
 * ORT is a release of onnxruntime with the header onnxruntime_c_api.h. onnxruntime maps a weight without a copy if the graph
 * names its place in a file; it copies what AddExternalInitializers gives it. So this names the places in the archive, in
 * the graph in memory. External tensors in subgraphs and attributes stay as they are, and are an error of onnxruntime.
 */
#define ONNXZ_IMPLEMENTATION
#include "../onnxz.h"

#include <onnxruntime_c_api.h>

static const OrtApi *ort;

/* Ends the program if the status is an error. */
static void check(OrtStatus *status) {
    if (status == NULL) return;
    fprintf(stderr, "onnxruntime: %s\n", ort->GetErrorMessage(status));
    exit(1);
}

/* Bytes that grow. */
typedef struct {
    unsigned char *bytes;
    size_t nbytes, room;
} buffer;

static void append(buffer *to, const void *bytes, size_t nbytes) {
    if (nbytes == 0) return;
    if (to->room - to->nbytes < nbytes) {
        to->room = (to->nbytes + nbytes) * 2;
        to->bytes = (unsigned char *)realloc(to->bytes, to->room);
        if (to->bytes == NULL) {
            fprintf(stderr, "there is not enough memory\n");
            exit(1);
        }
    }
    memcpy(to->bytes + to->nbytes, bytes, nbytes);
    to->nbytes += nbytes;
}

static void append_varint(buffer *to, uint64_t value) {
    for (;; value >>= 7) {
        unsigned char byte = (unsigned char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        append(to, &byte, 1);
        if (value <= 0x7f) return;
    }
}

/* Appends a field with bytes: a message or a text. */
static void append_field(buffer *to, uint32_t number, const void *bytes, size_t nbytes) {
    append_varint(to, (uint64_t)number << 3 | 2);
    append_varint(to, nbytes);
    append(to, bytes, nbytes);
}

static void append_place(buffer *to, const char *key, const char *value) {
    buffer pair = {NULL, 0, 0};
    append_field(&pair, 1, key, strlen(key));
    append_field(&pair, 2, value, strlen(value));
    append_field(to, 13, pair.bytes, pair.nbytes);
    free(pair.bytes);
}

/* The bytes of the entry that external_data names, or NULL if the tensor is not external. */
static const onnxz_entry *entry_of(onnxz_archive *archive, onnxz__span tensor) {
    const onnxz_entry *entry = NULL;
    onnxz__field field, inner;
    int is_external = 0;
    while (tensor.at < tensor.end && onnxz__next(archive, &tensor, &field)) {
        onnxz__span pair = field.bytes, key = {NULL, NULL}, value = {NULL, NULL};
        if (field.number == 14 && field.wire_type == 0) is_external = (uint32_t)field.varint == 1;
        if (field.number != 13 || field.wire_type != 2) continue;
        while (pair.at < pair.end && onnxz__next(archive, &pair, &inner)) {
            if (inner.number == 1 && inner.wire_type == 2) key = inner.bytes;
            if (inner.number == 2 && inner.wire_type == 2) value = inner.bytes;
        }
        if (key.at != NULL && value.at != NULL && onnxz__is(key, "location")) {
            entry = onnxz_entry_at(archive, onnxz__exact(archive, value.at, onnxz__length(value)));
        }
    }
    return is_external ? entry : NULL;
}

/* Copies the fields of a message; those with this number are for the next function: 7 is `graph`, 5 `initializer`. */
static void copy_fields(onnxz_archive *archive, const char *file, onnxz__span message, uint32_t number, buffer *to) {
    onnxz__field field;
    while (message.at < message.end) {
        const unsigned char *start = message.at;
        const onnxz_entry *entry = NULL;
        buffer content = {NULL, 0, 0};
        char text[24];
        if (!onnxz__next(archive, &message, &field)) return; /* the reader has checked this */
        if (number == 5 && field.number == 5 && field.wire_type == 2) entry = entry_of(archive, field.bytes);
        if (field.wire_type == 2 && field.number == number && (number == 7 || entry != NULL)) {
            copy_fields(archive, file, field.bytes, number == 7 ? 5 : 13, &content);
            if (entry != NULL) {
                append_place(&content, "location", file);
                snprintf(text, sizeof text, "%" PRIu64, entry->offset);
                append_place(&content, "offset", text);
                snprintf(text, sizeof text, "%" PRIu64, (uint64_t)entry->nbytes);
                append_place(&content, "length", text);
            }
            append_field(to, number, content.bytes, content.nbytes);
            free(content.bytes);
        } else if (number != 13 || field.number != 13) {
            append(to, start, (size_t)(message.at - start));
        }
    }
}

static void print_names(const OrtSession *session) {
    OrtAllocator *allocator;
    size_t i, count;
    char *name;
    check(ort->GetAllocatorWithDefaultOptions(&allocator));
    check(ort->SessionGetInputCount(session, &count));
    for (i = 0; i < count; i++) {
        check(ort->SessionGetInputName(session, i, allocator, &name));
        printf("input %s\n", name);
        check(ort->AllocatorFree(allocator, name));
    }
    check(ort->SessionGetOutputCount(session, &count));
    for (i = 0; i < count; i++) {
        check(ort->SessionGetOutputName(session, i, allocator, &name));
        printf("output %s\n", name);
        check(ort->AllocatorFree(allocator, name));
    }
}

int main(int count, char **arguments) {
    const char *model = count == 4 ? arguments[3] : NULL;
    onnxz_error error;
    onnxz_archive *archive;
    const onnxz_entry *graph;
    OrtEnv *env;
    OrtSessionOptions *options;
    OrtSession *session;
    buffer linked = {NULL, 0, 0};
    onnxz__span message;
    char path[4096];
    if (count != 3 && count != 4) {
        fprintf(stderr, "usage: onnxruntime FOLDER ARCHIVE [MODEL]\n");
        return 2;
    }
    snprintf(path, sizeof path, "%s/%s", arguments[1], arguments[2]);
    archive = onnxz_open(path, ONNXZ_LOADING, model, &error);
    if (archive == NULL) {
        fprintf(stderr, "%s: %s%s%s\n", path, error.message, *error.requirement ? ", requirement " : "", error.requirement);
        return 1;
    }
    graph = onnxz_graph(archive, model);
    if (graph == NULL) {
        fprintf(stderr, "%s: it has several models and no default one: say which\n", path);
        return 1;
    }
    ort = OrtGetApiBase()->GetApi(20);
    if (ort == NULL) {
        fprintf(stderr, "onnxruntime is older than 1.20\n");
        return 1;
    }
    message.at = graph->bytes;
    message.end = graph->bytes + graph->nbytes;
    copy_fields(archive, arguments[2], message, 7, &linked);
    check(ort->CreateEnv(ORT_LOGGING_LEVEL_WARNING, "onnxz", &env));
    check(ort->CreateSessionOptions(&options));
    check(ort->AddSessionConfigEntry(options, "session.model_external_initializers_file_folder_path", arguments[1]));
    check(ort->AddSessionConfigEntry(options, "session.disable_prepacking", "1")); /* a kernel's copy in its own layout */
    check(ort->CreateSessionFromArray(env, linked.bytes, linked.nbytes, options, &session));
    free(linked.bytes);
    onnxz_close(archive); /* onnxruntime has its own map */
    print_names(session);
    ort->ReleaseSession(session);
    ort->ReleaseSessionOptions(options);
    ort->ReleaseEnv(env);
    return 0;
}
