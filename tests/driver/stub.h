/* What the files of the stub share: the log, planned failures, handles. */

#ifndef STUB_H
#define STUB_H

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

/* Begin a call: with its name, count it, and return what it is to fail with. */
CUresult stub_begin(const char *name);

/* Write a line of the log, {"call": name, "status": n, ...}, and return the status. */
CUresult stub_end(const char *name, CUresult status, const char *more, ...)
    __attribute__((format(printf, 3, 4)));

/* Begin a function, named as the program asks for it, which may be planned to fail. */
#define BEGIN(name)                                   \
    const char *stub_call = #name;                    \
    CUresult stub_planned = stub_begin(stub_call);    \
    if (stub_planned) return stub_end(stub_call, stub_planned, "")

#define END(status, ...) return stub_end(stub_call, status, __VA_ARGS__)
#define DONE END(CUDA_SUCCESS, "")
#define REQUIRE(condition, status)                    \
    do {                                              \
        if (!(condition)) END(status, "");            \
    } while (0)

#define CONTEXT_NEEDED REQUIRE(stub_context(), CUDA_ERROR_INVALID_CONTEXT)

enum { MOST_DEVICES = 8, MOST_PARAMETERS = 512 };

/* An attribute of the devices. */
int stub_attribute(CUdevice_attribute which);

/* The current context of this thread, NULL without one, and its device. */
CUcontext stub_context(void);
CUdevice stub_device(void);

/* The bytes of a device. */
size_t stub_memory(void);

/* Whether a stream has been made and not been destroyed. */
int stub_is_stream(CUstream stream);

#endif
