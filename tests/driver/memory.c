/* The memory of the devices, which is the host's: copies really copy. */

#include "stub.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct Piece {
    struct Piece *next;
    char *begin;
    size_t size;
    CUdevice device; /* -1 of pinned memory */
} Piece;

static Piece *pieces;
static size_t used[MOST_DEVICES];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

#define NUMBER(pointer) (unsigned long long)(uintptr_t)(pointer)

/* Memory of zeros, NULL without room. */
static void *allocated(size_t size, CUdevice device) {
    pthread_mutex_lock(&mutex);
    void *found = NULL;
    if (device < 0 || used[device] + size <= stub_memory()) {
        Piece *piece = malloc(sizeof *piece);
        found = calloc(1, size + 256);
        if (found) {
            *piece = (Piece){pieces, found, size, device};
            pieces = piece;
            if (device >= 0) used[device] += size;
        }
    }
    pthread_mutex_unlock(&mutex);
    return found;
}

static int freed(void *begin) {
    pthread_mutex_lock(&mutex);
    Piece **place = &pieces;
    while (*place && (*place)->begin != begin) place = &(*place)->next;
    Piece *piece = *place;
    if (piece) {
        *place = piece->next;
        if (piece->device >= 0) used[piece->device] -= piece->size;
        free(piece->begin);
        free(piece);
    }
    pthread_mutex_unlock(&mutex);
    return piece != NULL;
}

/* The piece that an address is in. */
static int find(const void *address, Piece *found) {
    pthread_mutex_lock(&mutex);
    const Piece *piece = pieces;
    while (piece && !((const char *)address >= piece->begin &&
                      (const char *)address < piece->begin + piece->size))
        piece = piece->next;
    if (piece) *found = *piece;
    pthread_mutex_unlock(&mutex);
    return piece != NULL;
}

CUresult cuMemAlloc(CUdeviceptr *pointer, size_t size) {
    BEGIN(cuMemAlloc);
    CONTEXT_NEEDED;
    void *found = allocated(size, stub_device());
    if (!found) END(CUDA_ERROR_OUT_OF_MEMORY, "\"bytes\": %zu", size);
    *pointer = (CUdeviceptr)found;
    END(CUDA_SUCCESS, "\"bytes\": %zu, \"pointer\": %llu", size, NUMBER(found));
}

CUresult cuMemFree(CUdeviceptr pointer) {
    BEGIN(cuMemFree);
    REQUIRE(!pointer || freed((void *)pointer), CUDA_ERROR_INVALID_VALUE);
    END(CUDA_SUCCESS, "\"pointer\": %llu", NUMBER(pointer));
}

CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t size, CUstream stream) {
    return cuMemAlloc(pointer, size);
}

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) { return cuMemFree(pointer); }

CUresult cuMemGetInfo(size_t *unused, size_t *total) {
    BEGIN(cuMemGetInfo);
    CONTEXT_NEEDED;
    *total = stub_memory();
    *unused = *total - used[stub_device()];
    DONE;
}

CUresult cuMemHostAlloc(void **pointer, size_t size, unsigned flags) {
    BEGIN(cuMemHostAlloc);
    CONTEXT_NEEDED;
    *pointer = allocated(size, -1);
    REQUIRE(*pointer, CUDA_ERROR_OUT_OF_MEMORY);
    END(CUDA_SUCCESS, "\"bytes\": %zu, \"pointer\": %llu", size, NUMBER(*pointer));
}

CUresult cuMemAllocHost(void **pointer, size_t size) { return cuMemHostAlloc(pointer, size, 0); }

CUresult cuMemFreeHost(void *pointer) {
    BEGIN(cuMemFreeHost);
    REQUIRE(freed(pointer), CUDA_ERROR_INVALID_VALUE);
    END(CUDA_SUCCESS, "\"pointer\": %llu", NUMBER(pointer));
}

/* Copies. */

static CUresult copied(const char *call, CUdeviceptr to, CUdeviceptr from, size_t size) {
    const char *stub_call = call;
    CUresult planned = stub_begin(call);
    if (planned) END(planned, "");
    CONTEXT_NEEDED;
    memmove((void *)to, (const void *)from, size);
    END(CUDA_SUCCESS, "\"bytes\": %zu, \"to\": %llu, \"from\": %llu", size, NUMBER(to),
        NUMBER(from));
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t n) {
    return copied("cuMemcpy", to, from, n);
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) {
    return copied("cuMemcpyAsync", to, from, n);
}
CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t n) {
    return copied("cuMemcpyHtoD", to, (CUdeviceptr)from, n);
}
CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t n) {
    return copied("cuMemcpyDtoH", (CUdeviceptr)to, from, n);
}
CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t n) {
    return copied("cuMemcpyDtoD", to, from, n);
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t n, CUstream s) {
    return copied("cuMemcpyHtoDAsync", to, (CUdeviceptr)from, n);
}
CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t n, CUstream s) {
    return copied("cuMemcpyDtoHAsync", (CUdeviceptr)to, from, n);
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) {
    return copied("cuMemcpyDtoDAsync", to, from, n);
}

static CUresult copied_rows(const char *call, const CUDA_MEMCPY2D *copy) {
    const char *stub_call = call;
    CUresult planned = stub_begin(call);
    if (planned) END(planned, "");
    CONTEXT_NEEDED;
    const char *from = copy->srcMemoryType == CU_MEMORYTYPE_HOST ? copy->srcHost
                                                                  : (const char *)copy->srcDevice;
    char *to = copy->dstMemoryType == CU_MEMORYTYPE_HOST ? copy->dstHost : (char *)copy->dstDevice;
    from += copy->srcY * copy->srcPitch + copy->srcXInBytes;
    to += copy->dstY * copy->dstPitch + copy->dstXInBytes;
    for (size_t i = 0; i < copy->Height; i++)
        memmove(to + i * copy->dstPitch, from + i * copy->srcPitch, copy->WidthInBytes);
    END(CUDA_SUCCESS, "\"bytes\": %zu", copy->Height * copy->WidthInBytes);
}

CUresult cuMemcpy2D(const CUDA_MEMCPY2D *copy) { return copied_rows("cuMemcpy2D", copy); }
CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D *copy) {
    return copied_rows("cuMemcpy2DUnaligned", copy);
}
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D *copy, CUstream stream) {
    return copied_rows("cuMemcpy2DAsync", copy);
}

static CUresult filled(const char *call, CUdeviceptr to, const void *value, size_t size, size_t n) {
    const char *stub_call = call;
    CUresult planned = stub_begin(call);
    if (planned) END(planned, "");
    CONTEXT_NEEDED;
    for (size_t i = 0; i < n; i++) memcpy((char *)to + i * size, value, size);
    END(CUDA_SUCCESS, "\"bytes\": %zu, \"to\": %llu", n * size, NUMBER(to));
}

CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t n) {
    return filled("cuMemsetD8", to, &value, 1, n);
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n, CUstream s) {
    return filled("cuMemsetD8Async", to, &value, 1, n);
}
CUresult cuMemsetD32(CUdeviceptr to, unsigned value, size_t n) {
    return filled("cuMemsetD32", to, &value, 4, n);
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t n, CUstream s) {
    return filled("cuMemsetD32Async", to, &value, 4, n);
}

/* What an address is. */

static CUresult described(CUpointer_attribute which, const Piece *piece, const void *address,
                          void *data) {
    switch (which) {
        case CU_POINTER_ATTRIBUTE_CONTEXT: *(CUcontext *)data = stub_context(); break;
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            *(unsigned *)data = piece->device < 0 ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
            break;
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *(CUdeviceptr *)data = (CUdeviceptr)address; break;
        case CU_POINTER_ATTRIBUTE_HOST_POINTER:
            *(const void **)data = piece->device < 0 ? address : NULL;
            break;
        case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(unsigned *)data = 0; break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)data = piece->device < 0 ? 0 : piece->device; break;
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *(CUdeviceptr *)data = (CUdeviceptr)piece->begin; break;
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *(size_t *)data = piece->size; break;
        default: return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute which, CUdeviceptr pointer) {
    BEGIN(cuPointerGetAttribute);
    Piece piece;
    REQUIRE(find((void *)pointer, &piece), CUDA_ERROR_INVALID_VALUE);
    END(described(which, &piece, (void *)pointer, data), "");
}

CUresult cuPointerGetAttributes(unsigned n, CUpointer_attribute *which, void **data,
                                CUdeviceptr pointer) {
    BEGIN(cuPointerGetAttributes);
    Piece piece;
    if (find((void *)pointer, &piece))
        for (unsigned i = 0; i < n; i++) described(which[i], &piece, (void *)pointer, data[i]);
    else
        for (unsigned i = 0; i < n; i++)
            if (which[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) *(unsigned *)data[i] = 0;
    DONE;
}
