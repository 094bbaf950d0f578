/* A stand-in for NVML, the NVIDIA driver's library, built by tests/test_driver.py.
   Two unlike cards; the environment variable FAKE_NVML chooses how it misbehaves. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned gpu, memory; } Rates;

static int is(const char *mode) {
    const char *chosen = getenv("FAKE_NVML");
    return chosen && !strcmp(chosen, mode);
}
static long number(void *card) { return (long)card - 1; } /* a handle is the number plus one */
static int unsupported(void) { return is("tells little") ? 3 : 0; }

int nvmlInitWithFlags(unsigned flags) {
    if (is("mismatch")) return 18;
    if (is("no driver")) return 9;
    if (is("hangs")) sleep(600);
    if (is("crashes")) abort();
    return 0;
}
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = is("no card") ? 0 : 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **card) {
    if (is("lost card") && index == 1) return 15;
    *card = (void *)(long)(index + 1);
    return 0;
}
int nvmlDeviceGetName(void *card, char *name, unsigned size) {
    if (is("odd name")) strcpy(name, "Card \xff\xfe");
    else strcpy(name, number(card) ? "Card L" : "Card S");
    return unsupported();
}
int nvmlDeviceGetUUID(void *card, char *uuid, unsigned size) {
    strcpy(uuid, number(card) ? "GPU-2222bbbb" : "GPU-1111aaaa");
    return unsupported();
}
int nvmlDeviceGetMemoryInfo(void *card, Memory *memory) {
    memory->total = (number(card) ? 24576ull : 6144ull) << 20;
    memory->free = memory->total / 2;
    return unsupported();
}
int nvmlDeviceGetUtilizationRates(void *card, Rates *rates) {
    rates->gpu = 7;
    return unsupported();
}
int nvmlDeviceGetCudaComputeCapability(void *card, int *major, int *minor) {
    *major = 8, *minor = 6;
    return unsupported();
}
int nvmlDeviceGetMigMode(void *card, unsigned *current, unsigned *pending) {
    *current = *pending = is("mig");
    return unsupported();
}
int nvmlDeviceGetP2PStatus(void *one, void *two, int index, unsigned *status) {
    *status = is("nvlink") ? 0 : 1;
    return unsupported();
}
int nvmlDeviceGetTopologyCommonAncestor(void *one, void *two, unsigned *level) {
    *level = 30;
    return unsupported();
}
int nvmlSystemGetDriverVersion(char *version, unsigned size) {
    strcpy(version, "550.1");
    return unsupported();
}
