/* Machine code: what cubins say of their kernels, and launches, which are checked and logged.

   A cubin is an ELF file. Section .nv.info.<kernel> has the places of its parameters, .nv.info the
   registers of all kernels, .nv.shared.<kernel> as many bytes as it has static shared memory. */

#define _GNU_SOURCE
#include "stub.h"

#include <elf.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REGISTERS = 0x2f, PARAMETER = 0x17, MOST_THREADS = 0x05, FRAME = 0x11 };
enum { HAS_VALUE = 4, OPTIONAL_SHARED = 48 * 1024, MAGIC = 0x6b65726e };

struct CUkern_st {
    int magic;
    CUkernel next;
    struct CUlib_st *library;
    char *name;
    int n_parameters, offsets[MOST_PARAMETERS], sizes[MOST_PARAMETERS];
    int registers, threads, local, static_shared;
    int dynamic_shared[MOST_DEVICES]; /* that it has been allowed */
    int is_known; /* whether its parameters are */
};
struct CUlib_st {
    CUkernel kernels;
    int is_machine_code, has_names;
    CUdevice device; /* of a module, -1 of a library */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static CUkernel new_kernel(CUlibrary library, const char *name, size_t length) {
    CUkernel made = calloc(1, sizeof *made);
    made->magic = MAGIC;
    made->library = library;
    made->name = strndup(name, length);
    made->threads = 1024;
    made->next = library->kernels;
    library->kernels = made;
    return made;
}

/* Cubins. */

typedef struct {
    const char *code;
    const Elf64_Ehdr *head;
    const Elf64_Shdr *sections;
    const char *names;
} Cubin;

static const Elf64_Shdr *section(const Cubin *cubin, const char *prefix, const char *name) {
    for (int i = 0; i < cubin->head->e_shnum; i++) {
        const char *found = cubin->names + cubin->sections[i].sh_name;
        size_t n = strlen(prefix);
        if (!strncmp(found, prefix, n) && !strcmp(found + n, name)) return &cubin->sections[i];
    }
    return NULL;
}

/* Call what takes an attribute for each entry of a section with them. */
static void each_attribute(const Cubin *cubin, const Elf64_Shdr *part, CUkernel kernel,
                           void (*take)(const Cubin *, CUkernel, int, const uint32_t *)) {
    const char *at = cubin->code + part->sh_offset, *end = at + part->sh_size;
    while (at + 4 <= end) {
        int format = (uint8_t)at[0], which = (uint8_t)at[1];
        uint16_t size;
        memcpy(&size, at + 2, 2);
        if (format == HAS_VALUE) take(cubin, kernel, which, (const uint32_t *)(at + 4));
        at += 4 + (format == HAS_VALUE ? size : 0);
    }
}

static void take_of_kernel(const Cubin *cubin, CUkernel kernel, int which, const uint32_t *value) {
    if (which == MOST_THREADS) kernel->threads = value[0] * value[1] * value[2];
    if (which == PARAMETER) { /* index; ordinal and offset of 16 bits each; flags with the size */
        int ordinal = value[1] & 0xffff, offset = value[1] >> 16, size = value[2] >> 18;
        if (ordinal >= MOST_PARAMETERS) abort();
        kernel->offsets[ordinal] = offset;
        kernel->sizes[ordinal] = size;
        if (kernel->n_parameters <= ordinal) kernel->n_parameters = ordinal + 1;
    }
}

static const char *symbol(const Cubin *cubin, uint32_t index) {
    const Elf64_Shdr *table = section(cubin, ".symtab", ""), *names = section(cubin, ".strtab", "");
    const Elf64_Sym *symbols = (const Elf64_Sym *)(cubin->code + table->sh_offset);
    return cubin->code + names->sh_offset + symbols[index].st_name;
}

static void take_of_all(const Cubin *cubin, CUkernel kernel, int which, const uint32_t *value) {
    if ((which == REGISTERS || which == FRAME) && !strcmp(symbol(cubin, value[0]), kernel->name))
        *(which == REGISTERS ? &kernel->registers : &kernel->local) = value[1];
}

static CUresult read_cubin(CUlibrary library, const char *code) {
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)code;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(code + head->e_shoff);
    Cubin cubin = {code, head, sections, code + sections[head->e_shstrndx].sh_offset};
    library->is_machine_code = library->has_names = 1;
    /* The architecture is in the second byte from format 8 of cubins on, before it in the first. */
    int architecture = head->e_ident[EI_ABIVERSION] >= 8 ? (head->e_flags >> 8) & 0xff
                                                         : head->e_flags & 0xff;
    int major = stub_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    int own = 10 * major + stub_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    if (architecture / 10 != major || architecture > own) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    for (int i = 0; i < head->e_shnum; i++) {
        const char *name = cubin.names + sections[i].sh_name;
        if (strncmp(name, ".text.", 6)) continue;
        const Elf64_Shdr *info = section(&cubin, ".nv.info.", name + 6);
        const Elf64_Shdr *all = section(&cubin, ".nv.info", "");
        if (!info || !all) continue; /* a function that kernels call */
        CUkernel kernel = new_kernel(library, name + 6, strlen(name + 6));
        kernel->is_known = 1;
        each_attribute(&cubin, info, kernel, take_of_kernel);
        each_attribute(&cubin, all, kernel, take_of_all);
        const Elf64_Shdr *shared = section(&cubin, ".nv.shared.", name + 6);
        kernel->static_shared = shared ? (int)shared->sh_size : 0;
    }
    return CUDA_SUCCESS;
}

/* PTX: the names and parameters of its kernels. */
static CUresult read_ptx(CUlibrary library, const char *text) {
    if (!strstr(text, ".version")) return CUDA_ERROR_INVALID_PTX;
    library->has_names = 1;
    for (const char *at = text; (at = strstr(at, ".entry ")); at++) {
        const char *name = at + 7, *list = strchr(name, '('), *end = list ? strchr(list, ')') : NULL;
        if (!end) return CUDA_ERROR_INVALID_PTX;
        CUkernel kernel = new_kernel(library, name, strcspn(name, "( \n"));
        kernel->is_known = 1;
        int offset = 0;
        for (const char *p = list; (p = strstr(p, ".param ")) && p < end; p++) {
            int bits = 0;
            for (const char *digits = strpbrk(p + 7, "0123456789"); *digits >= '0' && *digits <= '9';)
                bits = 10 * bits + *digits++ - '0';
            int size = bits / 8;
            offset = (offset + size - 1) / size * size;
            kernel->offsets[kernel->n_parameters] = offset;
            kernel->sizes[kernel->n_parameters++] = size;
            offset += size;
        }
    }
    return CUDA_SUCCESS;
}

static CUresult load(CUlibrary *library, const void *code, CUdevice device) {
    CUlibrary made = calloc(1, sizeof *made);
    made->device = device;
    CUresult status = CUDA_SUCCESS;
    if (!memcmp(code, ELFMAG, SELFMAG))
        status = read_cubin(made, code);
    else if (*(const char *)code >= 9 && *(const char *)code < 127 && *(const uint32_t *)code != 0xba55ed50)
        status = read_ptx(made, code);
    /* Other formats pack several codes: any name is one of their kernels. */
    if (status)
        free(made);
    else
        *library = made;
    return status;
}

static CUkernel kernel_named(CUlibrary library, const char *name) {
    pthread_mutex_lock(&mutex);
    CUkernel found = library->kernels;
    while (found && strcmp(found->name, name)) found = found->next;
    if (!found && !library->has_names) found = new_kernel(library, name, strlen(name));
    pthread_mutex_unlock(&mutex);
    return found;
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *options,
                           void **values, unsigned n, CUlibraryOption *of_library,
                           void **values_of_library, unsigned n_of_library) {
    BEGIN(cuLibraryLoadData);
    CUresult status = load(library, code, -1);
    if (status) END(status, "");
    END(CUDA_SUCCESS, "\"library\": %llu, \"machine code\": %d",
        (unsigned long long)(uintptr_t)*library, (*library)->is_machine_code);
}

CUresult cuLibraryUnload(CUlibrary library) {
    BEGIN(cuLibraryUnload);
    END(CUDA_SUCCESS, "\"library\": %llu", (unsigned long long)(uintptr_t)library);
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
    BEGIN(cuLibraryGetKernel);
    *kernel = kernel_named(library, name);
    REQUIRE(*kernel, CUDA_ERROR_NOT_FOUND);
    END(CUDA_SUCCESS, "\"kernel\": \"%s\", \"handle\": %llu", name,
        (unsigned long long)(uintptr_t)*kernel);
}

CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library) {
    BEGIN(cuLibraryGetModule);
    *module = (CUmodule)library;
    DONE;
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel) {
    BEGIN(cuKernelGetFunction);
    CONTEXT_NEEDED;
    *function = (CUfunction)kernel;
    DONE;
}

CUresult cuKernelGetLibrary(CUlibrary *library, CUkernel kernel) {
    BEGIN(cuKernelGetLibrary);
    *library = kernel->library;
    DONE;
}

CUresult cuModuleLoadData(CUmodule *module, const void *code) {
    BEGIN(cuModuleLoadData);
    CONTEXT_NEEDED;
    END(load((CUlibrary *)module, code, stub_device()), "");
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *code, unsigned n, CUjit_option *options,
                            void **values) {
    return cuModuleLoadData(module, code);
}

CUresult cuModuleUnload(CUmodule module) {
    BEGIN(cuModuleUnload);
    DONE;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    BEGIN(cuModuleGetFunction);
    *function = (CUfunction)kernel_named((CUlibrary)module, name);
    REQUIRE(*function, CUDA_ERROR_NOT_FOUND);
    END(CUDA_SUCCESS, "\"kernel\": \"%s\"", name);
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode) {
    BEGIN(cuModuleGetLoadingMode);
    *mode = CU_MODULE_LAZY_LOADING;
    DONE;
}

/* Attributes. */

static CUresult attribute_of(CUkernel kernel, CUfunction_attribute which, CUdevice device,
                             int *value) {
    if (!kernel || kernel->magic != MAGIC) return CUDA_ERROR_INVALID_HANDLE;
    switch (which) {
        case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = kernel->threads; break;
        case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = kernel->static_shared; break;
        case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = kernel->local; break;
        case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = kernel->registers; break;
        case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
            *value = kernel->dynamic_shared[device];
            if (!*value) *value = OPTIONAL_SHARED - kernel->static_shared;
            break;
        default: *value = 0;
    }
    return CUDA_SUCCESS;
}

static CUresult set_attribute(CUkernel kernel, CUfunction_attribute which, CUdevice device,
                              int value) {
    if (!kernel || kernel->magic != MAGIC) return CUDA_ERROR_INVALID_HANDLE;
    if (which != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_SUCCESS;
    int most = stub_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    if (value < 0 || value > most - kernel->static_shared) return CUDA_ERROR_INVALID_VALUE;
    kernel->dynamic_shared[device] = value;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetAttribute(int *value, CUfunction_attribute which, CUkernel kernel,
                              CUdevice device) {
    BEGIN(cuKernelGetAttribute);
    END(attribute_of(kernel, which, device, value), "");
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute which, CUfunction function) {
    BEGIN(cuFuncGetAttribute);
    END(attribute_of((CUkernel)function, which, stub_device(), value), "");
}

#define ATTRIBUTE "\"kernel\": \"%s\", \"attribute\": %d, \"value\": %d, \"device\": %d"

CUresult cuKernelSetAttribute(CUfunction_attribute which, int value, CUkernel kernel,
                              CUdevice device) {
    BEGIN(cuKernelSetAttribute);
    CUresult status = set_attribute(kernel, which, device, value);
    if (status == CUDA_ERROR_INVALID_HANDLE) END(status, "");
    END(status, ATTRIBUTE, kernel->name, which, value, device);
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute which, int value) {
    BEGIN(cuFuncSetAttribute);
    END(set_attribute((CUkernel)function, which, stub_device(), value), "");
}

CUresult cuKernelGetName(const char **name, CUkernel kernel) {
    BEGIN(cuKernelGetName);
    *name = kernel->name;
    DONE;
}

static CUresult parameter_of(CUkernel kernel, size_t i, size_t *offset, size_t *size) {
    if (i >= (size_t)kernel->n_parameters) return CUDA_ERROR_INVALID_VALUE;
    *offset = kernel->offsets[i];
    if (size) *size = kernel->sizes[i];
    return CUDA_SUCCESS;
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t i, size_t *offset, size_t *size) {
    BEGIN(cuKernelGetParamInfo);
    END(parameter_of(kernel, i, offset, size), "");
}

CUresult cuFuncGetParamInfo(CUfunction function, size_t i, size_t *offset, size_t *size) {
    BEGIN(cuFuncGetParamInfo);
    END(parameter_of((CUkernel)function, i, offset, size), "");
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, CUfunction function, int threads,
                                                     size_t shared) {
    BEGIN(cuOccupancyMaxActiveBlocksPerMultiprocessor);
    *n = 2048 / (threads ? threads : 1);
    DONE;
}

/* Launches. */

static CUresult launched(const char *stub_call, CUkernel kernel, const unsigned *grid,
                         const unsigned *block, unsigned shared, CUstream stream, void **parameters) {
    CONTEXT_NEEDED;
    REQUIRE(kernel && kernel->magic == MAGIC, CUDA_ERROR_INVALID_HANDLE);
    REQUIRE(stub_is_stream(stream), CUDA_ERROR_INVALID_HANDLE);
    CUdevice device = stub_device();
    REQUIRE(kernel->library->device < 0 || kernel->library->device == device,
            CUDA_ERROR_INVALID_HANDLE);
    char words[1 << 14] = "";
    int n = 0;
    for (int i = 0; i < kernel->n_parameters; i++) {
        unsigned long long value = 0;
        memcpy(&value, parameters[i], kernel->sizes[i] > 8 ? 8 : kernel->sizes[i]);
        n += snprintf(words + n, sizeof words - n, "%s%llu", i ? ", " : "", value);
    }
    unsigned long long threads = (unsigned long long)block[0] * block[1] * block[2];
    unsigned long long blocks = (unsigned long long)grid[0] * grid[1] * grid[2];
    int most;
    attribute_of(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, device, &most);
    CUresult status = CUDA_SUCCESS;
    if (!threads || threads > 1024 || !blocks || grid[1] > 65535 || grid[2] > 65535 ||
        grid[0] > 2147483647u || (int)shared > most)
        status = CUDA_ERROR_INVALID_VALUE;
    else if (threads > (unsigned)kernel->threads ||
             threads * ((kernel->registers + 7) / 8 * 8) > 65536)
        status = CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    END(status,
        "\"kernel\": \"%s\", \"device\": %d, \"grid\": [%u, %u, %u], \"block\": [%u, %u, %u], "
        "\"shared\": %u, \"static\": %d, \"registers\": %d, \"stream\": %llu, \"words\": [%s]",
        kernel->name, device, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared,
        kernel->static_shared, kernel->registers, (unsigned long long)(uintptr_t)stream, words);
}

CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                        unsigned by, unsigned bz, unsigned shared, CUstream stream,
                        void **parameters, void **extra) {
    BEGIN(cuLaunchKernel);
    const unsigned grid[] = {gx, gy, gz}, block[] = {bx, by, bz};
    return launched(stub_call, (CUkernel)function, grid, block, shared, stream, parameters);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *how, CUfunction function, void **parameters,
                          void **extra) {
    BEGIN(cuLaunchKernelEx);
    const unsigned grid[] = {how->gridDimX, how->gridDimY, how->gridDimZ};
    const unsigned block[] = {how->blockDimX, how->blockDimY, how->blockDimZ};
    return launched(stub_call, (CUkernel)function, grid, block, how->sharedMemBytes, how->hStream,
                    parameters);
}
