/* A stub of the CUDA driver: devices, contexts, streams, events, and the way to all functions.

   Every call is written to the file that STUB_LOG names, a line of JSON each. Variables:

   STUB_DEVICES       the number of devices (1)
   CUDA_VISIBLE_DEVICES   empty: there is none
   STUB_CAPABILITY    their compute capability (9.0)
   STUB_MEMORY        the bytes of each (80 GiB)
   STUB_CUDA          the version of CUDA that the driver is of (13000)
   STUB_FAIL          calls that fail, as in "cuMemAlloc=2@3,cuLaunchKernel=719": with this status
                      from the third call on, and from the first. What a GPU does not recover from
                      is returned by all calls that need a context from then on.

   Nothing is executed: a launch is checked, and its parameters are logged. */

#define _GNU_SOURCE
#include "stub.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The log. */

static int log_file(void) {
    static int file = -2;
    if (file == -2) {
        const char *path = getenv("STUB_LOG");
        file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
    }
    return file;
}

CUresult stub_end(const char *name, CUresult status, const char *more, ...) {
    int file = log_file();
    if (file < 0) return status;
    static __thread char line[1 << 15];
    int n = snprintf(line, sizeof line, "{\"call\": \"%s\", \"status\": %d, \"thread\": %ld", name,
                     status, (long)syscall(SYS_gettid));
    if (*more) {
        n += snprintf(line + n, sizeof line - n, ", ");
        va_list list;
        va_start(list, more);
        n += vsnprintf(line + n, sizeof line - n - 3, more, list);
        va_end(list);
    }
    if (n > (int)sizeof line - 3) n = sizeof line - 3;
    line[n++] = '}';
    line[n++] = '\n';
    if (write(file, line, n) != n) abort(); /* a log with holes would prove nothing */
    return status;
}

/* Planned failures. */

enum { MOST_PLANS = 32 };
typedef struct {
    char name[64];
    int status, first, count;
} Plan;
static Plan plans[MOST_PLANS];
static int n_plans;
static CUresult lost; /* what the device does not recover from */
static pthread_mutex_t planning = PTHREAD_MUTEX_INITIALIZER;

static void read_plans(void) {
    const char *text = getenv("STUB_FAIL");
    while (text && *text && n_plans < MOST_PLANS) {
        Plan *plan = &plans[n_plans++];
        plan->first = 1;
        if (sscanf(text, "%63[^=]=%d@%d", plan->name, &plan->status, &plan->first) < 2) abort();
        text = strchr(text, ',');
        if (text) text++;
    }
}

static int is_final(int status) {
    return status == CUDA_ERROR_DEVICE_UNAVAILABLE || status == CUDA_ERROR_ECC_UNCORRECTABLE ||
           status == CUDA_ERROR_ILLEGAL_ADDRESS || status == CUDA_ERROR_UNKNOWN ||
           (status >= CUDA_ERROR_ASSERT && status <= CUDA_ERROR_LAUNCH_FAILED);
}

/* Functions that work without a device. */
static int is_needless(const char *name) {
    static const char *const names[] = {"cuInit", "cuDriverGetVersion", "cuGetErrorName",
                                        "cuGetErrorString", "cuGetProcAddress"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i])) return 1;
    return !strncmp(name, "cuDeviceGet", 11);
}

CUresult stub_begin(const char *name) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_plans);
    if (!n_plans) return CUDA_SUCCESS;
    CUresult found = CUDA_SUCCESS;
    pthread_mutex_lock(&planning);
    for (int i = 0; i < n_plans && !found; i++)
        if (!strcmp(plans[i].name, name) && ++plans[i].count >= plans[i].first)
            found = plans[i].status;
    if (is_final(found)) lost = found;
    if (!found && lost && !is_needless(name)) found = lost;
    pthread_mutex_unlock(&planning);
    return found;
}

/* The driver. */

CUresult cuInit(unsigned flags) {
    BEGIN(cuInit);
    DONE;
}

CUresult cuDriverGetVersion(int *version) {
    BEGIN(cuDriverGetVersion);
    const char *text = getenv("STUB_CUDA");
    *version = text ? atoi(text) : 13000;
    DONE;
}

static const struct {
    int status;
    const char *name;
} errors[] = {
    {0, "CUDA_SUCCESS"}, {1, "CUDA_ERROR_INVALID_VALUE"}, {2, "CUDA_ERROR_OUT_OF_MEMORY"},
    {3, "CUDA_ERROR_NOT_INITIALIZED"}, {46, "CUDA_ERROR_DEVICE_UNAVAILABLE"},
    {100, "CUDA_ERROR_NO_DEVICE"}, {101, "CUDA_ERROR_INVALID_DEVICE"},
    {200, "CUDA_ERROR_INVALID_IMAGE"}, {201, "CUDA_ERROR_INVALID_CONTEXT"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"}, {214, "CUDA_ERROR_ECC_UNCORRECTABLE"},
    {218, "CUDA_ERROR_INVALID_PTX"}, {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
    {400, "CUDA_ERROR_INVALID_HANDLE"}, {500, "CUDA_ERROR_NOT_FOUND"},
    {600, "CUDA_ERROR_NOT_READY"}, {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"}, {719, "CUDA_ERROR_LAUNCH_FAILED"},
    {801, "CUDA_ERROR_NOT_SUPPORTED"}, {999, "CUDA_ERROR_UNKNOWN"},
};

CUresult cuGetErrorName(CUresult error, const char **text) {
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].status == (int)error) {
            *text = errors[i].name;
            return CUDA_SUCCESS;
        }
    *text = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **text) { return cuGetErrorName(error, text); }

/* Functions that the stub lacks: each says its name when it is called. */

enum { MOST_LACKING = 1024 };
static char *lacking[MOST_LACKING];
static int n_lacking;

#define LACKS(n) \
    static CUresult lacks_##n(void) { return stub_end(lacking[n], CUDA_ERROR_NOT_SUPPORTED, ""); }
#define EIGHT(m, p) m(p##0) m(p##1) m(p##2) m(p##3) m(p##4) m(p##5) m(p##6) m(p##7)
#define SIXTY_FOUR(m, p) \
    EIGHT(m, p##0) EIGHT(m, p##1) EIGHT(m, p##2) EIGHT(m, p##3) \
    EIGHT(m, p##4) EIGHT(m, p##5) EIGHT(m, p##6) EIGHT(m, p##7)
#define ALL(m) /* octal numbers */ \
    SIXTY_FOUR(m, 00) SIXTY_FOUR(m, 01) SIXTY_FOUR(m, 02) SIXTY_FOUR(m, 03) SIXTY_FOUR(m, 04) \
    SIXTY_FOUR(m, 05) SIXTY_FOUR(m, 06) SIXTY_FOUR(m, 07) SIXTY_FOUR(m, 010) SIXTY_FOUR(m, 011)
ALL(LACKS)
#define ENTRY(n) lacks_##n,
static CUresult (*const lacks[])(void) = {ALL(ENTRY)};

static void *lacking_function(const char *name) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&mutex);
    int i = 0;
    while (i < n_lacking && strcmp(lacking[i], name)) i++;
    if (i == n_lacking && i < (int)(sizeof lacks / sizeof *lacks)) lacking[n_lacking++] = strdup(name);
    pthread_mutex_unlock(&mutex);
    return (void *)lacks[i];
}

static void *function_named(const char *name) {
    static const char *const suffixes[] = {"_v3", "_v2", ""};
    static void *self;
    if (!self) {
        Dl_info info;
        if (!dladdr((void *)function_named, &info)) abort();
        self = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    }
    for (int i = 0; i < 3; i++) {
        char versioned[128];
        snprintf(versioned, sizeof versioned, "%s%s", name, suffixes[i]);
        void *found = dlsym(self, versioned);
        if (found) return found;
    }
    return lacking_function(name);
}

CUresult cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult *result) {
    *function = function_named(name);
    if (result) *result = CU_GET_PROC_ADDRESS_SUCCESS;
    return CUDA_SUCCESS;
}

/* Tables of functions that are not public: the runtime library, which asks for them, works with
   NVIDIA's driver only, and says so. */
CUresult cuGetExportTable(const void **table, const CUuuid *which) {
    BEGIN(cuGetExportTable);
    END(CUDA_ERROR_NOT_SUPPORTED, "");
}

/* Devices. */

static int n_devices(void) {
    const char *text = getenv("STUB_DEVICES");
    int n = text ? atoi(text) : 1;
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (visible && (!*visible || *visible == '-')) n = 0;
    return n < MOST_DEVICES ? n : MOST_DEVICES;
}

#define DEVICE_NEEDED(device) \
    REQUIRE((device) >= 0 && (device) < n_devices(), CUDA_ERROR_INVALID_DEVICE)

int stub_attribute(CUdevice_attribute which) {
    int major = 9, minor = 0;
    const char *text = getenv("STUB_CAPABILITY");
    if (text) sscanf(text, "%d.%d", &major, &minor);
    switch (which) {
        case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: return 1024;
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X: return 1024;
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: return 1024;
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: return 64;
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: return 2147483647;
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y: return 65535;
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: return 65535;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: return 48 * 1024;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: return 227 * 1024;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: return 228 * 1024;
        case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK: return 1024;
        case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY: return 65536;
        case CU_DEVICE_ATTRIBUTE_WARP_SIZE: return 32;
        case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK: return 65536;
        case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR: return 65536;
        case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: return 2048;
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: return 32;
        case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: return 1980000;
        case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: return 2619000;
        case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: return 5120;
        case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: return 50 * 1024 * 1024;
        case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return 132;
        case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING: return 1;
        case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY: return 1;
        case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: return 3;
        case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS: return 1;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return major;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: return minor;
        default: return 0;
    }
}

size_t stub_memory(void) {
    const char *text = getenv("STUB_MEMORY");
    return text ? strtoull(text, NULL, 10) : (size_t)80 << 30;
}

CUresult cuDeviceGetCount(int *n) {
    BEGIN(cuDeviceGetCount);
    *n = n_devices();
    DONE;
}

CUresult cuDeviceGet(CUdevice *device, int index) {
    BEGIN(cuDeviceGet);
    DEVICE_NEEDED(index);
    *device = index;
    END(CUDA_SUCCESS, "\"device\": %d", index);
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device) {
    BEGIN(cuDeviceGetName);
    DEVICE_NEEDED(device);
    snprintf(name, size, "NVIDIA Stub");
    DONE;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
    BEGIN(cuDeviceGetUuid);
    DEVICE_NEEDED(device);
    memset(uuid, device + 1, sizeof *uuid);
    DONE;
}

CUresult cuDeviceGetPCIBusId(char *name, int size, CUdevice device) {
    BEGIN(cuDeviceGetPCIBusId);
    DEVICE_NEEDED(device);
    snprintf(name, size, "0000:%02x:00.0", device + 1);
    DONE;
}

CUresult cuDeviceGetLuid(char *luid, unsigned *mask, CUdevice device) {
    BEGIN(cuDeviceGetLuid);
    END(CUDA_ERROR_NOT_SUPPORTED, "");
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device) {
    BEGIN(cuDeviceTotalMem);
    DEVICE_NEEDED(device);
    *bytes = stub_memory();
    DONE;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute which, CUdevice device) {
    BEGIN(cuDeviceGetAttribute);
    DEVICE_NEEDED(device);
    *value = stub_attribute(which);
    END(CUDA_SUCCESS, "\"device\": %d, \"attribute\": %d, \"value\": %d", device, which, *value);
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice other) {
    BEGIN(cuDeviceCanAccessPeer);
    *can = 0;
    DONE;
}

/* Contexts: the primary ones, and a stack in each thread. */

struct CUctx_st {
    CUdevice device;
    int retained;
};
static struct CUctx_st contexts[MOST_DEVICES];
static __thread CUcontext stack[64];
static __thread int depth;

CUcontext stub_context(void) {
    CUcontext context = depth ? stack[depth - 1] : NULL;
    return context && context->retained ? context : NULL;
}

CUdevice stub_device(void) {
    CUcontext context = stub_context();
    return context ? context->device : 0;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    BEGIN(cuDevicePrimaryCtxRetain);
    DEVICE_NEEDED(device);
    *context = &contexts[device];
    contexts[device].device = device;
    int now = __sync_add_and_fetch(&contexts[device].retained, 1);
    END(CUDA_SUCCESS, "\"device\": %d, \"retained\": %d", device, now);
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
    BEGIN(cuDevicePrimaryCtxRelease);
    DEVICE_NEEDED(device);
    REQUIRE(contexts[device].retained > 0, CUDA_ERROR_INVALID_CONTEXT);
    int now = __sync_sub_and_fetch(&contexts[device].retained, 1);
    END(CUDA_SUCCESS, "\"device\": %d, \"retained\": %d", device, now);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
    BEGIN(cuDevicePrimaryCtxGetState);
    DEVICE_NEEDED(device);
    *flags = 0;
    *active = contexts[device].retained > 0;
    DONE;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags) {
    BEGIN(cuDevicePrimaryCtxSetFlags);
    DONE;
}

CUresult cuCtxGetCurrent(CUcontext *context) {
    BEGIN(cuCtxGetCurrent);
    *context = depth ? stack[depth - 1] : NULL;
    DONE;
}

CUresult cuCtxSetCurrent(CUcontext context) {
    BEGIN(cuCtxSetCurrent);
    if (!depth) depth = 1;
    stack[depth - 1] = context;
    END(CUDA_SUCCESS, "\"device\": %d", context ? context->device : -1);
}

CUresult cuCtxPushCurrent(CUcontext context) {
    BEGIN(cuCtxPushCurrent);
    REQUIRE(context && depth < 64, CUDA_ERROR_INVALID_CONTEXT);
    stack[depth++] = context;
    DONE;
}

CUresult cuCtxPopCurrent(CUcontext *context) {
    BEGIN(cuCtxPopCurrent);
    REQUIRE(depth, CUDA_ERROR_INVALID_CONTEXT);
    depth--;
    if (context) *context = stack[depth];
    DONE;
}

CUresult cuCtxGetDevice(CUdevice *device) {
    BEGIN(cuCtxGetDevice);
    CONTEXT_NEEDED;
    *device = stub_device();
    DONE;
}

CUresult cuCtxGetFlags(unsigned *flags) {
    BEGIN(cuCtxGetFlags);
    *flags = 0;
    DONE;
}

CUresult cuCtxGetApiVersion(CUcontext context, unsigned *version) {
    BEGIN(cuCtxGetApiVersion);
    *version = 13000;
    DONE;
}

CUresult cuCtxGetId(CUcontext context, unsigned long long *id) {
    BEGIN(cuCtxGetId);
    *id = context ? context->device + 1 : stub_device() + 1;
    DONE;
}

CUresult cuCtxGetLimit(size_t *value, CUlimit limit) {
    BEGIN(cuCtxGetLimit);
    *value = 1024;
    DONE;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
    BEGIN(cuCtxSetLimit);
    DONE;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    BEGIN(cuCtxGetStreamPriorityRange);
    *least = *greatest = 0;
    DONE;
}

CUresult cuCtxSynchronize(void) {
    BEGIN(cuCtxSynchronize);
    CONTEXT_NEEDED;
    DONE;
}

/* Streams and events: all work is done when it has been given. */

struct CUstream_st {
    CUstream next;
    CUcontext context;
    unsigned flags;
    int priority;
};
struct CUevent_st {
    struct timespec recorded;
};
static CUstream streams;
static pthread_mutex_t of_streams = PTHREAD_MUTEX_INITIALIZER;

int stub_is_stream(CUstream stream) {
    if ((uintptr_t)stream <= 2) return 1; /* the default ones */
    pthread_mutex_lock(&of_streams);
    CUstream found = streams;
    while (found && found != stream) found = found->next;
    pthread_mutex_unlock(&of_streams);
    return found != NULL;
}

#define STREAM_NEEDED(stream)                                       \
    CONTEXT_NEEDED;                                                 \
    REQUIRE(stub_is_stream(stream), CUDA_ERROR_INVALID_HANDLE)
#define STREAM "\"stream\": %llu"
#define NUMBER(pointer) (unsigned long long)(uintptr_t)(pointer)

static CUresult new_stream(CUstream *stream, unsigned flags, int priority) {
    CUstream made = calloc(1, sizeof *made);
    made->context = stub_context();
    made->flags = flags;
    made->priority = priority;
    pthread_mutex_lock(&of_streams);
    made->next = streams;
    streams = made;
    pthread_mutex_unlock(&of_streams);
    *stream = made;
    return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
    BEGIN(cuStreamCreate);
    CONTEXT_NEEDED;
    new_stream(stream, flags, 0);
    END(CUDA_SUCCESS, STREAM, NUMBER(*stream));
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority) {
    BEGIN(cuStreamCreateWithPriority);
    CONTEXT_NEEDED;
    new_stream(stream, flags, priority);
    END(CUDA_SUCCESS, STREAM, NUMBER(*stream));
}

CUresult cuStreamDestroy(CUstream stream) {
    BEGIN(cuStreamDestroy);
    REQUIRE((uintptr_t)stream > 2 && stub_is_stream(stream), CUDA_ERROR_INVALID_HANDLE);
    pthread_mutex_lock(&of_streams);
    CUstream *place = &streams;
    while (*place != stream) place = &(*place)->next;
    *place = stream->next;
    pthread_mutex_unlock(&of_streams);
    free(stream);
    END(CUDA_SUCCESS, STREAM, NUMBER(stream));
}

CUresult cuStreamSynchronize(CUstream stream) {
    BEGIN(cuStreamSynchronize);
    STREAM_NEEDED(stream);
    END(CUDA_SUCCESS, STREAM, NUMBER(stream));
}

CUresult cuStreamQuery(CUstream stream) {
    BEGIN(cuStreamQuery);
    STREAM_NEEDED(stream);
    DONE;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    BEGIN(cuStreamWaitEvent);
    STREAM_NEEDED(stream);
    END(CUDA_SUCCESS, STREAM, NUMBER(stream));
}

CUresult cuStreamGetPriority(CUstream stream, int *priority) {
    BEGIN(cuStreamGetPriority);
    STREAM_NEEDED(stream);
    *priority = (uintptr_t)stream <= 2 ? 0 : stream->priority;
    DONE;
}

CUresult cuStreamGetFlags(CUstream stream, unsigned *flags) {
    BEGIN(cuStreamGetFlags);
    STREAM_NEEDED(stream);
    *flags = (uintptr_t)stream <= 2 ? 0 : stream->flags;
    DONE;
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext *context) {
    BEGIN(cuStreamGetCtx);
    STREAM_NEEDED(stream);
    *context = (uintptr_t)stream <= 2 ? stub_context() : stream->context;
    DONE;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
    BEGIN(cuStreamIsCapturing);
    STREAM_NEEDED(stream);
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    DONE;
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data) {
    BEGIN(cuLaunchHostFunc);
    STREAM_NEEDED(stream);
    function(data);
    DONE;
}

CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback function, void *data,
                             unsigned flags) {
    BEGIN(cuStreamAddCallback);
    STREAM_NEEDED(stream);
    function(stream, CUDA_SUCCESS, data);
    DONE;
}

CUresult cuEventCreate(CUevent *event, unsigned flags) {
    BEGIN(cuEventCreate);
    CONTEXT_NEEDED;
    *event = calloc(1, sizeof **event);
    DONE;
}

CUresult cuEventDestroy(CUevent event) {
    BEGIN(cuEventDestroy);
    free(event);
    DONE;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
    BEGIN(cuEventRecord);
    STREAM_NEEDED(stream);
    clock_gettime(CLOCK_MONOTONIC, &event->recorded);
    END(CUDA_SUCCESS, STREAM, NUMBER(stream));
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
    return cuEventRecord(event, stream);
}

CUresult cuEventSynchronize(CUevent event) {
    BEGIN(cuEventSynchronize);
    DONE;
}

CUresult cuEventQuery(CUevent event) {
    BEGIN(cuEventQuery);
    DONE;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent first, CUevent last) {
    BEGIN(cuEventElapsedTime);
    *milliseconds = 1e3 * (last->recorded.tv_sec - first->recorded.tv_sec) +
                    1e-6 * (last->recorded.tv_nsec - first->recorded.tv_nsec);
    DONE;
}
