/*
 * Makes a session of onnxruntime from an archive, with the weights in place: it copies none. Prints inputs and outputs.
 *
 *     cc -std=c99 -I ORT/include -o onnxruntime onnxruntime.c -L ORT/lib -lonnxruntime && ./onnxruntime model.onnxz [MODEL]
 *
 * ORT is a release of onnxruntime, 1.17 or later, which has the header onnxruntime_c_api.h. Weights whose place in the map
 * has less than the alignment of their elements are copied. External tensors in subgraphs and attributes have no name that
 * onnxruntime knows, so a model that has them is an error here.
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

static void *need(void *memory) {
    if (memory != NULL) return memory;
    fprintf(stderr, "there is not enough memory\n");
    exit(1);
}

/* The weights of one model, for onnxruntime. All of it has to live as long as the session. */
typedef struct {
    size_t count, copied;
    char **names;
    OrtValue **values;
    void **copies; /* NULL for a weight that is in place */
} weights;

static weights weights_of(const onnxz_archive *archive, const onnxz_entry *graph) {
    size_t i, count = onnxz_tensor_count(archive);
    OrtMemoryInfo *memory;
    weights w = {0, 0, NULL, NULL, NULL};
    w.names = (char **)need(calloc(count + 1, sizeof *w.names));
    w.values = (OrtValue **)need(calloc(count + 1, sizeof *w.values));
    w.copies = (void **)need(calloc(count + 1, sizeof *w.copies));
    check(ort->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &memory));
    for (i = 0; i < count; i++) {
        const onnxz_tensor *tensor = onnxz_tensor_at(archive, i);
        size_t alignment = (onnxz_element_bits(tensor->data_type) + 7) / 8, n = w.count;
        void *data = (void *)(uintptr_t)tensor->entry->bytes; /* onnxruntime only reads a weight */
        if (tensor->graph != graph) continue;
        if (alignment > 1 && (uintptr_t)data % alignment != 0) {
            data = w.copies[n] = need(malloc(tensor->entry->nbytes + 1));
            memcpy(data, tensor->entry->bytes, tensor->entry->nbytes);
            w.copied++;
        }
        w.names[n] = (char *)need(malloc(tensor->name_nbytes + 1));
        memcpy(w.names[n], tensor->name, tensor->name_nbytes);
        w.names[n][tensor->name_nbytes] = 0;
        check(ort->CreateTensorWithDataAsOrtValue(memory, data, tensor->entry->nbytes, tensor->dims, tensor->rank,
                                                  (ONNXTensorElementDataType)tensor->data_type, &w.values[n]));
        w.count++;
    }
    ort->ReleaseMemoryInfo(memory);
    return w;
}

static void release(weights *w) {
    size_t i;
    for (i = 0; i < w->count; i++) {
        ort->ReleaseValue(w->values[i]);
        free(w->names[i]);
        free(w->copies[i]);
    }
    free(w->names);
    free(w->values);
    free(w->copies);
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
    const char *model = count == 3 ? arguments[2] : NULL;
    onnxz_error error;
    onnxz_archive *archive;
    const onnxz_entry *graph;
    OrtEnv *env;
    OrtSessionOptions *options;
    OrtSession *session;
    weights w;
    if (count != 2 && count != 3) {
        fprintf(stderr, "usage: onnxruntime ARCHIVE [MODEL]\n");
        return 2;
    }
    archive = onnxz_open(arguments[1], ONNXZ_LOADING, model, &error);
    if (archive == NULL) {
        fprintf(stderr, "%s: %s%s%s\n", arguments[1], error.message, *error.requirement ? ", requirement " : "", error.requirement);
        return 1;
    }
    graph = onnxz_graph(archive, model);
    if (graph == NULL) {
        fprintf(stderr, "%s: it has several models and no default one: say which\n", arguments[1]);
        return 1;
    }
    ort = OrtGetApiBase()->GetApi(17);
    if (ort == NULL) {
        fprintf(stderr, "onnxruntime is older than 1.17\n");
        return 1;
    }
    w = weights_of(archive, graph);
    check(ort->CreateEnv(ORT_LOGGING_LEVEL_WARNING, "onnxz", &env));
    check(ort->CreateSessionOptions(&options));
    /* Some kernels copy weights into a layout of their own. This keeps the others from doing so. */
    check(ort->AddSessionConfigEntry(options, "session.disable_prepacking", "1"));
    check(ort->AddExternalInitializers(options, (const char *const *)w.names, (const OrtValue *const *)w.values, w.count));
    check(ort->CreateSessionFromArray(env, graph->bytes, graph->nbytes, options, &session));
    printf("%lu weights in place, %lu copied\n", (unsigned long)(w.count - w.copied), (unsigned long)w.copied);
    print_names(session);
    ort->ReleaseSession(session);
    ort->ReleaseSessionOptions(options);
    ort->ReleaseEnv(env);
    release(&w);
    onnxz_close(archive);
    return 0;
}
