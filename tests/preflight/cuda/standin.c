/* A stand-in for libcuda.so.1: the calls that touching a card needs, told by the environment how to behave.
 *
 * LAB_CUDA_CARDS: how many cards there are (1). LAB_CUDA_FAIL: "CARD:CALL:CODE" or "*:CALL:CODE", a call that fails.
 * LAB_CUDA_HANG: "CARD:CALL", a call that never returns. LAB_CUDA_ROTTEN: a card whose memory does not keep what is
 * written to it. */
#include <stdint.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int current = -1;
static unsigned char *memory;

static const char *setting(const char *name) { const char *text = getenv(name); return text ? text : ""; }

static int behave(const char *call) {
    char card[16], name[64];
    int code = 0;
    if (sscanf(setting("LAB_CUDA_HANG"), "%15[^:]:%63[^:]", card, name) == 2 && !strcmp(name, call)
        && (card[0] == '*' || atoi(card) == current))
        for (;;) pause();
    if (sscanf(setting("LAB_CUDA_FAIL"), "%15[^:]:%63[^:]:%d", card, name, &code) == 3 && !strcmp(name, call)
        && (card[0] == '*' || atoi(card) == current))
        return code;
    return 0;
}

int cuInit(unsigned flags) { (void)flags; return behave("cuInit"); }
int cuDeviceGetCount(int *count) { *count = getenv("LAB_CUDA_CARDS") ? atoi(getenv("LAB_CUDA_CARDS")) : 1; return behave("cuDeviceGetCount"); }
int cuDeviceGet(int *device, int ordinal) { *device = current = ordinal; return behave("cuDeviceGet"); }
int cuDeviceGetUuid(unsigned char *uuid, int device) { memset(uuid, device + 1, 16); return behave("cuDeviceGetUuid"); }
int cuDevicePrimaryCtxRetain(void **context, int device) { (void)device; *context = &current; return behave("cuDevicePrimaryCtxRetain"); }
int cuCtxSetCurrent(void *context) { (void)context; return behave("cuCtxSetCurrent"); }
int cuMemAlloc_v2(uint64_t *at, size_t size) { memory = malloc(size); *at = (uint64_t)(uintptr_t)memory; return behave("cuMemAlloc_v2"); }
int cuMemsetD8_v2(uint64_t at, unsigned char value, size_t size) {
    int rotten = *setting("LAB_CUDA_ROTTEN") && atoi(setting("LAB_CUDA_ROTTEN")) == current;
    memset((void *)(uintptr_t)at, rotten ? 0 : value, size);
    return behave("cuMemsetD8_v2");
}
int cuCtxSynchronize(void) { return behave("cuCtxSynchronize"); }
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) { memcpy(to, (void *)(uintptr_t)from, size); return behave("cuMemcpyDtoH_v2"); }
int cuMemFree_v2(uint64_t at) { free((void *)(uintptr_t)at); return behave("cuMemFree_v2"); }
int cuGetErrorName(int code, const char **name) {
    switch (code) {
    case 2: *name = "CUDA_ERROR_OUT_OF_MEMORY"; return 0;
    case 100: *name = "CUDA_ERROR_NO_DEVICE"; return 0;
    case 700: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; return 0;
    case 719: *name = "CUDA_ERROR_LAUNCH_FAILED"; return 0;
    case 802: *name = "CUDA_ERROR_SYSTEM_NOT_READY"; return 0;
    default: return 1;
    }
}
