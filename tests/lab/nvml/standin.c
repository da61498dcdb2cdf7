/* A stand-in for libnvidia-ml.so.1: answers as the JSON file in RECIPE_AGENT_LAB_NVML says.
 *
 * The file is read again whenever it changes, so cards can fill, break and come back under a running program. A key
 * that a card does not have is NOT_SUPPORTED, as on real cards. `errors` (of a card, or of the whole file) maps a
 * function's name to the code that it returns; `error` of a card is returned by all its functions; `hang` (true, or
 * a function's name) never returns; `open_s` is what its opening takes, in seconds. Layouts of the structures follow NVIDIA's nvml.h.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9, TIMED_OUT = 10, UNKNOWN = 999
};

/* ---------------------------------------------------------------- JSON: values as a tree of siblings */

typedef enum { NUL, BOOL, NUMBER, STRING, ARRAY, OBJECT } kind_t;

typedef struct value {
    kind_t kind;
    double number;      /* NUMBER, BOOL */
    char *text;         /* STRING */
    char *key;          /* inside an OBJECT */
    struct value *child, *next;
} value;

static void drop(value *v) {
    while (v) {
        value *next = v->next;
        drop(v->child);
        free(v->text);
        free(v->key);
        free(v);
        v = next;
    }
}

static void blank(const char **at) { while (**at && strchr(" \t\r\n", **at)) (*at)++; }

static char *word(const char **at) {   /* a string; \uXXXX is not needed here and becomes '?' */
    char *out = malloc(strlen(*at) + 1), *to = out;
    for ((*at)++; **at && **at != '"'; (*at)++) {
        if (**at != '\\') { *to++ = **at; continue; }
        (*at)++;
        if (**at == 'n') *to++ = '\n';
        else if (**at == 't') *to++ = '\t';
        else if (**at == 'u') { *to++ = '?'; for (int i = 0; i < 4 && (*at)[1]; i++) (*at)++; }
        else if (**at) *to++ = **at;
        else break;
    }
    *to = 0;
    if (**at) (*at)++;
    return out;
}

static value *parse(const char **at);

static value *members(const char **at, value *into, char end) {
    value **tail = &into->child;
    (*at)++;
    for (blank(at); **at && **at != end; blank(at)) {
        char *key = NULL;
        if (into->kind == OBJECT) {
            if (**at != '"') return NULL;
            key = word(at);
            blank(at);
            if (**at == ':') (*at)++;
        }
        value *one = parse(at);
        if (!one) { free(key); return NULL; }
        one->key = key;
        *tail = one;
        tail = &one->next;
        blank(at);
        if (**at == ',') (*at)++;
    }
    if (**at != end) return NULL;
    (*at)++;
    return into;
}

static value *parse(const char **at) {
    value *v = calloc(1, sizeof *v), *whole = v;
    blank(at);
    if (**at == '{') { v->kind = OBJECT; whole = members(at, v, '}'); }
    else if (**at == '[') { v->kind = ARRAY; whole = members(at, v, ']'); }
    else if (**at == '"') { v->kind = STRING; v->text = word(at); }
    else if (!strncmp(*at, "true", 4)) { v->kind = BOOL; v->number = 1; *at += 4; }
    else if (!strncmp(*at, "false", 5)) { v->kind = BOOL; *at += 5; }
    else if (!strncmp(*at, "null", 4)) { *at += 4; }
    else {
        char *end;
        v->kind = NUMBER;
        v->number = strtod(*at, &end);
        if (end == *at) whole = NULL;
        *at = end;
    }
    if (!whole) drop(v);
    return whole;
}

static const value *get(const value *object, const char *key) {
    if (!object || object->kind != OBJECT) return NULL;
    for (const value *v = object->child; v; v = v->next)
        if (!strcmp(v->key, key)) return v->kind == NUL ? NULL : v;
    return NULL;
}

static const value *at(const value *array, unsigned index) {
    const value *v = array ? array->child : NULL;
    while (v && index--) v = v->next;
    return v;
}

static unsigned length(const value *array) {
    unsigned n = 0;
    for (const value *v = array ? array->child : NULL; v; v = v->next) n++;
    return n;
}

static double number(const value *v) { return v ? v->number : 0; }

/* ---------------------------------------------------------------- the file, read again when it changes */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static value *host;
static struct stat seen;
static int initialized;

static void reload(void) {
    const char *path = getenv("RECIPE_AGENT_LAB_NVML");
    struct stat now;
    if (!path || stat(path, &now)) { drop(host); host = NULL; memset(&seen, 0, sizeof seen); return; }
    if (host && now.st_ino == seen.st_ino && now.st_size == seen.st_size && now.st_mtim.tv_sec == seen.st_mtim.tv_sec
        && now.st_mtim.tv_nsec == seen.st_mtim.tv_nsec)
        return;
    FILE *file = fopen(path, "r");
    if (!file) return;
    char *text = calloc(1, now.st_size + 1);
    size_t size = fread(text, 1, now.st_size, file);
    fclose(file);
    const char *cursor = text;
    value *fresh = size ? parse(&cursor) : NULL;
    free(text);
    if (!fresh) { fprintf(stderr, "stand-in NVML: cannot parse %s\n", path); return; }
    drop(host);
    host = fresh;
    seen = now;
}

static void hang_if(const value *where, const char *function) {
    const value *hang = get(where, "hang");
    if (!hang || (hang->kind == STRING && strcmp(hang->text, function)) || (hang->kind == BOOL && !hang->number)) return;
    pthread_mutex_unlock(&lock);
    for (;;) pause();
}

static int code_of(const value *where, const char *function) {
    return (int)number(get(get(where, "errors"), function));
}

/* Every entry takes the lock, looks at the file and obeys `hang` and `errors`; LEAVE gives the lock back. */
#define ENTER pthread_mutex_lock(&lock); reload(); int result = begin(__func__); if (result) LEAVE(result)
#define LEAVE(code) do { int code_ = (code); pthread_mutex_unlock(&lock); return code_; } while (0)

static int begin(const char *function) {
    if (!host) return DRIVER_NOT_LOADED;
    hang_if(host, function);
    if (!initialized && strncmp(function, "nvmlInit", 8) && strcmp(function, "nvmlSystemGetNVMLVersion"))
        return UNINITIALIZED;
    return code_of(host, function);
}

/* Handles: 1 + card, or 1000 × (1 + card) + slice for an MIG device. */
static const value *card_of(void *handle, const value **slice) {
    uintptr_t n = (uintptr_t)handle;
    const value *cards = get(host, "cards");
    *slice = NULL;
    if (n < 1000) return at(cards, (unsigned)n - 1);
    const value *card = at(cards, (unsigned)(n / 1000) - 1);
    *slice = at(get(get(card, "mig"), "instances"), n % 1000);
    return card;
}

static int begin_card(void *handle, const char *function, const value **card) {
    const value *slice;
    *card = card_of(handle, &slice);
    if (!*card) return INVALID_ARGUMENT;
    hang_if(*card, function);
    int code = (int)number(get(*card, "error"));
    if (!code) code = code_of(*card, function);
    if (slice) *card = slice;
    return code;
}

#define ENTER_CARD(handle) ENTER; const value *card; \
    if ((result = begin_card(handle, __func__, &card))) LEAVE(result)

static int put_text(const value *from, char *to, unsigned size) {
    if (!from || from->kind != STRING) return NOT_SUPPORTED;
    if (strlen(from->text) + 1 > size) return INSUFFICIENT_SIZE;
    strcpy(to, from->text);
    return SUCCESS;
}

static int put_uint(const value *from, unsigned *to) {
    if (!from) return NOT_SUPPORTED;
    *to = (unsigned)from->number;
    return SUCCESS;
}

/* ---------------------------------------------------------------- library and system */

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    ENTER;
    usleep((useconds_t)(number(get(host, "open_s")) * 1e6));
    initialized++;
    LEAVE(SUCCESS);
}

int nvmlShutdown(void) {
    ENTER;
    initialized--;
    LEAVE(SUCCESS);
}

const char *nvmlErrorString(int code) {
    static const struct { int code; const char *text; } texts[] = {
        {0, "Success"}, {1, "Uninitialized"}, {2, "Invalid Argument"}, {3, "Not Supported"},
        {4, "Insufficient Permissions"}, {6, "Not Found"}, {9, "Driver Not Loaded"}, {10, "Timeout"},
        {13, "Function Not Found"}, {15, "GPU is lost"}, {16, "GPU requires reset"},
        {18, "Driver/library version mismatch"}, {999, "Unknown Error"},
    };
    for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].code == code) return texts[i].text;
    return "Unknown Error";
}

int nvmlSystemGetDriverVersion(char *to, unsigned size) { ENTER; LEAVE(put_text(get(host, "driver"), to, size)); }
int nvmlSystemGetNVMLVersion(char *to, unsigned size) { ENTER; LEAVE(put_text(get(host, "nvml"), to, size)); }
int nvmlSystemGetCudaDriverVersion_v2(int *to) { ENTER; LEAVE(put_uint(get(host, "cuda"), (unsigned *)to)); }
int nvmlDeviceGetCount_v2(unsigned *to) { ENTER; *to = length(get(host, "cards")); LEAVE(SUCCESS); }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **to) {
    ENTER_CARD((void *)(uintptr_t)(index + 1));
    (void)card;
    *to = (void *)(uintptr_t)(index + 1);
    LEAVE(SUCCESS);
}

/* ---------------------------------------------------------------- one card */

int nvmlDeviceGetName(void *h, char *to, unsigned size) { ENTER_CARD(h); LEAVE(put_text(get(card, "name"), to, size)); }
int nvmlDeviceGetUUID(void *h, char *to, unsigned size) { ENTER_CARD(h); LEAVE(put_text(get(card, "uuid"), to, size)); }

typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } pci_t;

int nvmlDeviceGetPciInfo_v3(void *h, pci_t *to) {
    ENTER_CARD(h);
    const value *pci = get(card, "pci");
    if (!pci) LEAVE(NOT_SUPPORTED);
    memset(to, 0, sizeof *to);
    snprintf(to->bus_id, sizeof to->bus_id, "%s", pci->text);
    sscanf(pci->text, "%x:%x:%x", &to->domain, &to->bus, &to->device);
    snprintf(to->legacy, sizeof to->legacy, "%04X:%02X:%02X.0", to->domain & 0xffff, to->bus & 0xff, to->device & 0xff);
    LEAVE(SUCCESS);
}

#define UINT(function, key) int function(void *h, unsigned *to) { ENTER_CARD(h); LEAVE(put_uint(get(card, key), to)); }
UINT(nvmlDeviceGetMinorNumber, "minor")
UINT(nvmlDeviceGetArchitecture, "architecture")
UINT(nvmlDeviceGetPowerUsage, "power_mw")
UINT(nvmlDeviceGetEnforcedPowerLimit, "power_limit_mw")
UINT(nvmlDeviceGetCurrPcieLinkWidth, "pcie_width")
UINT(nvmlDeviceGetMaxPcieLinkWidth, "pcie_width_max")
UINT(nvmlDeviceGetCurrPcieLinkGeneration, "pcie_generation")
UINT(nvmlDeviceGetMaxPcieLinkGeneration, "pcie_generation_max")
UINT(nvmlDeviceGetComputeMode, "compute_mode")
UINT(nvmlDeviceGetPersistenceMode, "persistence")
UINT(nvmlDeviceGetGpuInstanceId, "gpu_instance")
UINT(nvmlDeviceGetComputeInstanceId, "compute_instance")

typedef struct { unsigned long long total, free, used; } memory_v1;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_v2;

int nvmlDeviceGetMemoryInfo(void *h, memory_v1 *to) {   /* counts the reserve as used */
    ENTER_CARD(h);
    const value *memory = get(card, "memory");
    if (!memory) LEAVE(NOT_SUPPORTED);
    to->total = number(get(memory, "total"));
    to->used = number(get(memory, "used")) + number(get(memory, "reserved"));
    to->free = to->total - to->used;
    LEAVE(SUCCESS);
}

int nvmlDeviceGetMemoryInfo_v2(void *h, memory_v2 *to) {
    ENTER_CARD(h);
    const value *memory = get(card, "memory");
    if (!memory) LEAVE(NOT_SUPPORTED);
    to->total = number(get(memory, "total"));
    to->used = number(get(memory, "used"));
    to->reserved = number(get(memory, "reserved"));
    to->free = to->total - to->used - to->reserved;
    LEAVE(SUCCESS);
}

int nvmlDeviceGetCudaComputeCapability(void *h, int *major, int *minor) {
    ENTER_CARD(h);
    const value *capability = get(card, "compute_capability");
    if (!capability) LEAVE(NOT_SUPPORTED);
    *major = number(at(capability, 0));
    *minor = number(at(capability, 1));
    LEAVE(SUCCESS);
}

int nvmlDeviceGetUtilizationRates(void *h, unsigned to[2]) {
    ENTER_CARD(h);
    to[1] = 0;
    LEAVE(put_uint(get(card, "utilization"), to));
}

int nvmlDeviceGetTemperature(void *h, unsigned sensor, unsigned *to) {
    (void)sensor;
    ENTER_CARD(h);
    LEAVE(put_uint(get(card, "temperature"), to));
}

typedef struct { unsigned version, sensor; int temperature; } temperature_v1;

int nvmlDeviceGetTemperatureV(void *h, temperature_v1 *to) {
    ENTER_CARD(h);
    LEAVE(put_uint(get(card, "temperature"), (unsigned *)&to->temperature));
}

static const char *clock_name(unsigned type) { return type == 2 ? "memory" : type == 1 ? "sm" : "graphics"; }

int nvmlDeviceGetClockInfo(void *h, unsigned type, unsigned *to) {
    ENTER_CARD(h);
    LEAVE(put_uint(get(get(card, "clocks"), clock_name(type)), to));
}

int nvmlDeviceGetMaxClockInfo(void *h, unsigned type, unsigned *to) {
    ENTER_CARD(h);
    LEAVE(put_uint(get(get(card, "clocks_max"), clock_name(type)), to));
}

#define MASK(function, key) int function(void *h, unsigned long long *to) { \
    ENTER_CARD(h); const value *v = get(card, key); if (v) *to = v->number; LEAVE(v ? SUCCESS : NOT_SUPPORTED); }
MASK(nvmlDeviceGetCurrentClocksEventReasons, "throttle")
MASK(nvmlDeviceGetCurrentClocksThrottleReasons, "throttle")
MASK(nvmlDeviceGetSupportedEventTypes, "event_types")

int nvmlDeviceGetEccMode(void *h, unsigned *current, unsigned *pending) {
    ENTER_CARD(h);
    *pending = number(get(card, "ecc"));
    LEAVE(put_uint(get(card, "ecc"), current));
}

int nvmlDeviceGetTotalEccErrors(void *h, unsigned type, unsigned counter, unsigned long long *to) {
    (void)counter;
    ENTER_CARD(h);
    if (!number(get(card, "ecc"))) LEAVE(NOT_SUPPORTED);
    *to = type == 1 ? number(get(card, "ecc_uncorrected")) : 0;
    LEAVE(SUCCESS);
}

int nvmlDeviceGetRemappedRows(void *h, unsigned *correctable, unsigned *uncorrectable, unsigned *pending, unsigned *failed) {
    ENTER_CARD(h);
    const value *rows = get(card, "remapped_rows");
    if (!rows) LEAVE(NOT_SUPPORTED);
    *correctable = number(at(rows, 0));
    *uncorrectable = number(at(rows, 1));
    *pending = number(at(rows, 2));
    *failed = number(at(rows, 3));
    LEAVE(SUCCESS);
}

typedef struct {
    uint32_t field, scope;
    int64_t timestamp, latency;
    int type, result;
    union { double d; unsigned u; unsigned long long ull; } value;
} field_t;

int nvmlDeviceGetFieldValues(void *h, int count, field_t *values) {
    ENTER_CARD(h);
    for (int i = 0; i < count; i++) {
        const value *action = values[i].field == 230 ? get(card, "recovery_action") : NULL;
        values[i].type = 1;
        values[i].result = put_uint(action, &values[i].value.u);
    }
    LEAVE(SUCCESS);
}

/* ---------------------------------------------------------------- MIG */

int nvmlDeviceGetMigMode(void *h, unsigned *current, unsigned *pending) {
    ENTER_CARD(h);
    const value *mig = get(card, "mig");
    *pending = number(get(mig, "pending"));
    LEAVE(put_uint(get(mig, "enabled"), current));
}

int nvmlDeviceGetMaxMigDeviceCount(void *h, unsigned *to) {
    ENTER_CARD(h);
    *to = get(card, "mig") ? 7 : 0;
    LEAVE(SUCCESS);
}

int nvmlDeviceGetMigDeviceHandleByIndex(void *h, unsigned index, void **to) {
    ENTER_CARD(h);
    if (!at(get(get(card, "mig"), "instances"), index)) LEAVE(NOT_FOUND);
    *to = (void *)((uintptr_t)h * 1000 + index);
    LEAVE(SUCCESS);
}

/* ---------------------------------------------------------------- processes */

typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } process_t;

static int processes(const value *list, unsigned *count, process_t *to) {
    if (!list) return NOT_SUPPORTED;
    unsigned room = *count;
    *count = length(list);
    if (!*count) return SUCCESS;
    if (!to || room < *count) return INSUFFICIENT_SIZE;
    for (const value *v = list->child; v; v = v->next, to++) {
        const value *memory = get(v, "memory"), *gi = get(v, "gpu_instance"), *ci = get(v, "compute_instance");
        to->pid = number(get(v, "pid"));
        to->used = memory ? (unsigned long long)memory->number : ~0ull;
        to->gi = gi ? (unsigned)gi->number : ~0u;
        to->ci = ci ? (unsigned)ci->number : ~0u;
    }
    return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *h, unsigned *count, process_t *to) {
    ENTER_CARD(h);
    LEAVE(processes(get(card, "processes"), count, to));
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(void *h, unsigned *count, process_t *to) {
    ENTER_CARD(h);
    LEAVE(processes(get(card, "graphics"), count, to));
}

typedef struct { unsigned pid; unsigned long long when; unsigned sm, memory, encoder, decoder; } share_t;

/* Of each process the share of the card's time, `age` seconds old; only those that are newer than `since`. */
int nvmlDeviceGetProcessUtilization(void *h, share_t *to, unsigned *count, unsigned long long since) {
    ENTER_CARD(h);
    const value *list = get(card, "shares");
    if (!list) LEAVE(NOT_SUPPORTED);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    unsigned room = to ? *count : 0, found = 0;
    for (const value *v = list->child; v; v = v->next) {
        unsigned long long when = (now.tv_sec - number(get(v, "age"))) * 1e6 + now.tv_nsec / 1000;
        if (when <= since) continue;
        if (found < room) {
            memset(&to[found], 0, sizeof *to);
            to[found].pid = number(get(v, "pid"));
            to[found].when = when;
            to[found].sm = number(get(v, "sm"));
        }
        found++;
    }
    *count = found;
    LEAVE(!found ? NOT_FOUND : found > room ? INSUFFICIENT_SIZE : SUCCESS);
}

/* ---------------------------------------------------------------- events */

static unsigned long long registered[64];
static unsigned delivered;     /* number of events of the file that were handed out or passed over */

int nvmlEventSetCreate(void **to) { ENTER; *to = &delivered; LEAVE(SUCCESS); }
int nvmlEventSetFree(void *set) { (void)set; ENTER; LEAVE(SUCCESS); }

int nvmlDeviceRegisterEvents(void *h, unsigned long long mask, void *set) {
    (void)set;
    ENTER_CARD(h);
    uintptr_t index = (uintptr_t)h - 1;
    if (index >= 64 || mask & ~(unsigned long long)number(get(card, "event_types"))) LEAVE(NOT_SUPPORTED);
    registered[index] |= mask;
    LEAVE(SUCCESS);
}

typedef struct { void *device; unsigned long long type, data; unsigned gi, ci; } event_t;

static int next_event(event_t *to) {
    const value *events = get(host, "events");
    while (delivered < length(events)) {
        const value *event = at(events, delivered++), *gi = get(event, "gpu_instance"), *ci = get(event, "compute_instance");
        unsigned index = number(get(event, "card"));
        to->device = (void *)(uintptr_t)(index + 1);
        to->type = number(get(event, "type"));
        to->data = number(get(event, "data"));
        to->gi = gi ? (unsigned)gi->number : ~0u;
        to->ci = ci ? (unsigned)ci->number : ~0u;
        if (index < 64 && registered[index] & to->type) return 1;
    }
    return 0;
}

int nvmlEventSetWait_v2(void *set, event_t *to, unsigned timeout_ms) {
    (void)set;
    struct timespec nap = {0, 20 * 1000 * 1000};
    for (unsigned waited = 0;; waited += 20) {
        pthread_mutex_lock(&lock);
        reload();
        int result = begin(__func__);
        if (result) LEAVE(result);
        if (next_event(to)) LEAVE(SUCCESS);
        pthread_mutex_unlock(&lock);
        if (waited >= timeout_ms) return TIMED_OUT;
        nanosleep(&nap, NULL);
    }
}
