/* A CUDA driver for tests: memory of the device lies in this process, and kernels run on Heddle's simulator of GPU programs.
 *
 * It has the functions that heddle-runtime's `cuda/driver.rs` asks for, and refuses what the real driver refuses: calls without a
 * current context, copies that leave an allocation, memory given back twice, maps that are no multiple of the granule, launches of more
 * blocks than fit. Such mistakes are printed, too. Beyond that:
 *
 * - An address of the device is an alias of its memory, accessible only while a kernel runs. Host code that follows one dies of SIGSEGV.
 * - An allocation ends at a page that no access may touch, and begins with 0xff in each byte. A kernel that leaves it, or any other
 *   memory, ends with CUDA_ERROR_ILLEGAL_ADDRESS, and so does each later call until the context is reset.
 * - A stream's work is done by a thread of its own, some time after the call.
 *
 * HEDDLE_FAKE_CUDA has a list of settings: devices=1, driver=12040, arch=90, sms=4, blocks=2 (of a kernel on a multiprocessor),
 * threads=64 (of a block, at most), warp=32, seed=1, memory=8G, cooperative=1, mapping=1; fail=FUNCTION:N:STATUS has the Nth call of a
 * function fail; log=FILE is written when the process ends: the number of calls of each function, and what was not given back.
 *
 * Built with -DOLD it lacks cuMemCreate, as drivers before CUDA 10.2 do. */
#include <condition_variable>
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <dlfcn.h>
#include <fcntl.h>
#include <functional>
#include <link.h>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))

typedef uint64_t Address;

namespace {

enum Status {
  OK = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  NOT_INITIALIZED = 3,
  NO_DEVICE = 100,
  INVALID_DEVICE = 101,
  INVALID_IMAGE = 200,
  INVALID_CONTEXT = 201,
  NO_BINARY_FOR_GPU = 209,
  NOT_FOUND = 500,
  NOT_READY = 600,
  ILLEGAL_ADDRESS = 700,
  OUT_OF_RESOURCES = 701,
  LAUNCH_FAILED = 719,
  TOO_MANY_BLOCKS = 720,
};

const std::map<int, std::pair<const char *, const char *>> WORDS = {
    {INVALID_VALUE, {"CUDA_ERROR_INVALID_VALUE", "invalid argument"}},
    {OUT_OF_MEMORY, {"CUDA_ERROR_OUT_OF_MEMORY", "out of memory"}},
    {NOT_INITIALIZED, {"CUDA_ERROR_NOT_INITIALIZED", "initialization error"}},
    {NO_DEVICE, {"CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"}},
    {INVALID_DEVICE, {"CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"}},
    {INVALID_IMAGE, {"CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"}},
    {INVALID_CONTEXT, {"CUDA_ERROR_INVALID_CONTEXT", "invalid device context"}},
    {NO_BINARY_FOR_GPU, {"CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"}},
    {NOT_FOUND, {"CUDA_ERROR_NOT_FOUND", "named symbol not found"}},
    {NOT_READY, {"CUDA_ERROR_NOT_READY", "device not ready"}},
    {ILLEGAL_ADDRESS, {"CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"}},
    {OUT_OF_RESOURCES, {"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"}},
    {LAUNCH_FAILED, {"CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"}},
    {TOO_MANY_BLOCKS, {"CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "too many blocks in cooperative launch"}},
};

constexpr size_t ARENA = (size_t)1 << 45, PAGE = 4096, GRANULE = 2 << 20, ALIGNMENT = 256;
/* What fake-cuda's NVRTC puts before a library. */
constexpr char MAGIC[] = "HDLFAKE1";
constexpr size_t HEADER = 24;

enum Kind { ALLOC, HOST, MAPPED };

/* A range of addresses with memory; its pages are its own. */
struct Range {
  size_t bytes;
  Kind kind;
  size_t first_page, pages; /* In bytes. */
};

struct Reservation {
  size_t bytes;
};

struct Pages {
  size_t bytes;
  bool mapped, released;
};

/* As in sim.h. */
struct Simulation {
  uint32_t blocks, threads, warp;
  int32_t finding;
  uint64_t seed;
  int64_t line;
  uint64_t looks[2];
  uint32_t patient, cluster;
  char text[512];
};

/* `CUlaunchAttribute` and `CUlaunchConfig`. */
struct LaunchAttribute {
  int id, pad;
  alignas(8) unsigned value[16];
};
struct LaunchConfig {
  unsigned blocks[3], threads[3], shared;
  void *stream;
  const LaunchAttribute *attributes;
  unsigned count;
};

struct Module {
  void *library;
  std::vector<Address> globals;
};

struct Kernel {
  int32_t (*run)(const void *env, Simulation *);
  size_t env_bytes;
  /* Dynamic shared memory of a block: the bytes of the program's array, and the most that a launch may give. */
  size_t resident_bytes, allowed;
  uint32_t cluster;
};

/* The most without cuFuncSetAttribute. */
const size_t USUAL_SHARED = 48 << 10;

struct Stream {
  std::mutex lock;
  std::condition_variable changed;
  std::deque<std::function<int()>> work;
  bool busy = false, ends = false;
  int failed = OK;
  std::thread worker;
};

struct Failure {
  std::string function;
  long nth;
  int status;
};

struct Driver {
  std::recursive_mutex lock;
  bool started = false;
  std::map<std::string, uint64_t> settings;
  std::vector<Failure> failures;
  std::string log;
  std::map<std::string, long> calls;
  /* The primary context: how often it is retained, and the status that broke it. */
  int retained = 0, broken = OK;
  int arena = -1;
  uint8_t *device = nullptr, *host = nullptr;
  size_t next = GRANULE;
  uint64_t used = 0;
  std::map<Address, Range> ranges;
  std::map<Address, Reservation> reserved;
  /* Addresses that were given back, by bytes. */
  std::multimap<size_t, Address> spare;
  std::map<uint64_t, Pages> pages;
  std::map<Address, uint64_t> page_of;
  uint64_t next_pages = 1;
  std::set<Module *> modules;
  std::vector<std::unique_ptr<Kernel>> kernels;
  std::set<Stream *> streams;
  int running = 0, mistakes = 0;
};

/* It is there until the end, when `report` reads it. */
Driver &driver = *new Driver;
thread_local std::vector<void *> current;
thread_local bool in_kernel;
thread_local sigjmp_buf kernel_left;
struct sigaction before;

#define PRIMARY ((void *)0x1000)

uint64_t setting(const char *name) { return driver.settings[name]; }

void mistake(const char *function, const std::string &what) {
  driver.mistakes++;
  fprintf(stderr, "fake CUDA driver: %s: %s\n", function, what.c_str());
}

void read_settings() {
  driver.settings = {{"devices", 1}, {"driver", 12040}, {"arch", 90}, {"sms", 4}, {"blocks", 2}, {"clusters", 1024}, {"threads", 64}, {"shared", 227 << 10}, {"warp", 32},
                     {"seed", 1}, {"memory", (uint64_t)8 << 30}, {"local", 0}, {"cooperative", 1}, {"mapping", 1}};
  const char *given = getenv("HEDDLE_FAKE_CUDA");
  std::string text = given ? given : "";
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find(',', at);
    end = end == std::string::npos ? text.size() : end;
    std::string item = text.substr(at, end - at);
    at = end + 1;
    size_t is = item.find('=');
    std::string name = item.substr(0, is), value = is == std::string::npos ? "" : item.substr(is + 1);
    if (name == "log") {
      driver.log = value;
    } else if (name == "fail") {
      size_t first = value.find(':'), second = value.find(':', first + 1);
      Failure failure = {value.substr(0, first), 1, 999};
      if (first != std::string::npos) failure.nth = atol(value.c_str() + first + 1);
      if (first != std::string::npos && second != std::string::npos) failure.status = atoi(value.c_str() + second + 1);
      driver.failures.push_back(failure);
    } else if (driver.settings.count(name)) {
      char *unit;
      uint64_t number = strtoull(value.c_str(), &unit, 10);
      driver.settings[name] = number << (*unit == 'G' ? 30 : *unit == 'M' ? 20 : *unit == 'K' ? 10 : 0);
    } else {
      fprintf(stderr, "fake CUDA driver: there is no setting `%s`\n", item.c_str());
      exit(99);
    }
  }
}

/* A kernel touched memory that it may not touch; anybody else's fault is passed on. */
void on_fault(int number, siginfo_t *info, void *context) {
  if (in_kernel) siglongjmp(kernel_left, 1);
  if (before.sa_flags & SA_SIGINFO && before.sa_sigaction) return before.sa_sigaction(number, info, context);
  signal(number, SIG_DFL);
}

/* Counts a call, and has it fail if that is asked for. */
int enter(const char *function, bool needs_context) {
  long count = ++driver.calls[function];
  for (const Failure &failure : driver.failures)
    if (failure.function == function && failure.nth == count) {
      bool breaks = failure.status >= 700 && failure.status < 720 && failure.status != OUT_OF_RESOURCES;
      if (breaks) driver.broken = failure.status;
      return failure.status;
    }
  if (!driver.started && strcmp(function, "cuInit")) return NOT_INITIALIZED;
  if (!needs_context) return OK;
  if (current.empty() || current.back() != PRIMARY || !driver.retained) {
    mistake(function, "this thread has no context");
    return INVALID_CONTEXT;
  }
  return driver.broken;
}

#define ENTER(needs_context)                                                                       \
  std::lock_guard<std::recursive_mutex> guard(driver.lock);                                        \
  const char *function = __func__;                                                                 \
  if (int status = enter(function, needs_context)) return status

uint8_t *host_of(Address address) { return driver.host + ((uint8_t *)address - driver.device); }

void protect(const Range &range, bool open) {
  mprotect(driver.device + range.first_page, range.pages, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

/* New memory, whose end is the end of a page. */
Address add_range(size_t bytes, Kind kind) {
  size_t whole = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT, pages = (whole + PAGE - 1) / PAGE * PAGE;
  Range range = {bytes, kind, driver.next, pages};
  driver.next += pages + PAGE;
  Address address = (Address)(driver.device + range.first_page + pages - whole);
  driver.ranges[address] = range;
  driver.used += bytes;
  memset(driver.host + range.first_page, 0xff, pages);
  if (driver.running) protect(range, true);
  return address;
}

void remove_range(std::map<Address, Range>::iterator at) {
  const Range &range = at->second;
  protect(range, false);
  fallocate(driver.arena, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)range.first_page, (off_t)range.pages);
  if (range.kind != MAPPED) driver.used -= range.bytes;
  driver.ranges.erase(at);
}

/* Is all of this memory of the device? Maps that follow each other count as one. */
bool is_there(Address from, size_t bytes) {
  while (bytes) {
    auto at = driver.ranges.upper_bound(from);
    if (at == driver.ranges.begin()) return false;
    --at;
    size_t offset = from - at->first;
    if (offset >= at->second.bytes) return false;
    size_t part = at->second.bytes - offset;
    if (part >= bytes) return true;
    if (at->second.kind != MAPPED) return false;
    from += part, bytes -= part;
  }
  return true;
}

void serve(Stream *stream) {
  std::unique_lock<std::mutex> held(stream->lock);
  while (true) {
    stream->changed.wait(held, [&] { return stream->ends || !stream->work.empty(); });
    if (stream->work.empty()) return;
    auto work = std::move(stream->work.front());
    stream->work.pop_front();
    stream->busy = true;
    int failed = stream->failed;
    held.unlock();
    if (!failed) failed = work();
    held.lock();
    stream->busy = false;
    stream->failed = failed;
    stream->changed.notify_all();
  }
}

int add_work(Stream *stream, std::function<int()> work) {
  std::lock_guard<std::mutex> held(stream->lock);
  stream->work.push_back(std::move(work));
  stream->changed.notify_all();
  return OK;
}

Stream *known(const char *function, void *handle) {
  auto at = driver.streams.find((Stream *)handle);
  if (at != driver.streams.end()) return *at;
  mistake(function, "there is no such stream");
  return nullptr;
}

/* Runs a kernel on the stream's thread. */
int run_kernel(const Kernel *kernel, std::vector<uint8_t> env, Simulation simulation) {
  {
    std::lock_guard<std::recursive_mutex> guard(driver.lock);
    if (driver.broken) return driver.broken;
    if (!driver.running++)
      for (auto &range : driver.ranges) protect(range.second, true);
  }
  int status = OK;
  if (sigsetjmp(kernel_left, 1) == 0) {
    in_kernel = true;
    kernel->run(env.data(), &simulation);
    in_kernel = false;
    if (simulation.finding) {
      fprintf(stderr, "fake CUDA driver: line %lld: %s\n", (long long)simulation.line, simulation.text);
      status = LAUNCH_FAILED;
    }
  } else {
    in_kernel = false;
    status = ILLEGAL_ADDRESS;
  }
  std::lock_guard<std::recursive_mutex> guard(driver.lock);
  if (!--driver.running)
    for (auto &range : driver.ranges) protect(range.second, false);
  if (status) driver.broken = status;
  return status;
}

void end_stream(Stream *stream) {
  {
    std::lock_guard<std::mutex> held(stream->lock);
    stream->ends = true;
    stream->changed.notify_all();
  }
  stream->worker.join();
  delete stream;
}

/* What was not given back, and the number of calls. */
__attribute__((destructor)) void report() {
  if (driver.log.empty()) return;
  FILE *file = fopen(driver.log.c_str(), "w");
  if (!file) return;
  size_t bytes = 0;
  for (auto &range : driver.ranges) bytes += range.second.bytes;
  fprintf(file, "mistakes %d\nunfreed %zu\n", driver.mistakes, bytes);
  fprintf(file, "left modules %zu, streams %zu, reservations %zu, pages %zu\n", driver.modules.size(), driver.streams.size(),
          driver.reserved.size(), driver.pages.size());
  for (auto &call : driver.calls) fprintf(file, "%s %ld\n", call.first.c_str(), call.second);
  fclose(file);
}

} // namespace

API int cuGetErrorName(int status, const char **name) {
  auto at = WORDS.find(status);
  *name = at == WORDS.end() ? nullptr : at->second.first;
  return at == WORDS.end() ? INVALID_VALUE : OK;
}

API int cuGetErrorString(int status, const char **text) {
  auto at = WORDS.find(status);
  *text = at == WORDS.end() ? nullptr : at->second.second;
  return at == WORDS.end() ? INVALID_VALUE : OK;
}

API int cuInit(unsigned) {
  static std::once_flag once;
  std::call_once(once, read_settings);
  ENTER(false);
  if (!setting("devices")) return NO_DEVICE;
  if (driver.started) return OK;
  driver.arena = memfd_create("fake-cuda", MFD_CLOEXEC);
  if (driver.arena < 0 || ftruncate(driver.arena, ARENA)) return OUT_OF_MEMORY;
  int flags = MAP_SHARED | MAP_NORESERVE;
  void *device = mmap(nullptr, ARENA, PROT_NONE, flags, driver.arena, 0);
  void *host = mmap(nullptr, ARENA, PROT_READ | PROT_WRITE, flags, driver.arena, 0);
  if (device == MAP_FAILED || host == MAP_FAILED) return OUT_OF_MEMORY;
  driver.device = (uint8_t *)(((Address)device + GRANULE - 1) / GRANULE * GRANULE);
  driver.host = (uint8_t *)host + (driver.device - (uint8_t *)device);
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigaction(SIGSEGV, &action, &before);
  driver.started = true;
  return OK;
}

API int cuDriverGetVersion(int *version) {
  static std::once_flag once;
  std::call_once(once, [] { if (driver.settings.empty()) read_settings(); });
  *version = (int)setting("driver");
  return OK;
}

API int cuDeviceGetCount(int *count) {
  ENTER(false);
  *count = (int)setting("devices");
  return OK;
}

API int cuDeviceGet(int *device, int place) {
  ENTER(false);
  *device = place;
  return place >= 0 && place < (int)setting("devices") ? OK : INVALID_DEVICE;
}

API int cuDeviceGetName(char *name, int bytes, int) {
  ENTER(false);
  snprintf(name, (size_t)bytes, "Fake GPU");
  return OK;
}

API int cuDeviceTotalMem_v2(size_t *bytes, int) {
  ENTER(false);
  *bytes = setting("memory");
  return OK;
}

API int cuDeviceGetAttribute(int *value, int attribute, int) {
  ENTER(false);
  switch (attribute) {
  case 1: *value = (int)setting("threads"); break;
  case 16: *value = (int)setting("sms"); break;
  case 19: *value = 1; break;
  case 75: *value = (int)setting("arch") / 10; break;
  case 76: *value = (int)setting("arch") % 10; break;
  case 95: *value = (int)setting("cooperative"); break;
  case 97: *value = (int)setting("shared"); break;
  case 102: *value = (int)setting("mapping"); break;
  default: mistake(function, "attribute " + std::to_string(attribute)); return INVALID_VALUE;
  }
  return OK;
}

API int cuDevicePrimaryCtxRetain(void **context, int) {
  ENTER(false);
  if (driver.broken) return driver.broken;
  driver.retained++;
  *context = PRIMARY;
  return OK;
}

API int cuDevicePrimaryCtxRelease_v2(int) {
  ENTER(false);
  if (!driver.retained) {
    mistake(function, "the context is not retained");
    return INVALID_CONTEXT;
  }
  driver.retained--;
  return OK;
}

API int cuDevicePrimaryCtxReset_v2(int) {
  ENTER(false);
  for (Stream *stream : driver.streams) end_stream(stream);
  driver.streams.clear();
  while (!driver.ranges.empty()) remove_range(driver.ranges.begin());
  driver.reserved.clear(), driver.pages.clear(), driver.page_of.clear();
  driver.modules.clear();
  driver.used = 0, driver.broken = OK;
  return OK;
}

API int cuCtxPushCurrent_v2(void *context) {
  ENTER(false);
  if (context != PRIMARY) return INVALID_CONTEXT;
  current.push_back(context);
  return OK;
}

API int cuCtxPopCurrent_v2(void **context) {
  ENTER(false);
  if (current.empty()) return INVALID_CONTEXT;
  *context = current.back();
  current.pop_back();
  return OK;
}

API int cuModuleLoadData(void **handle, const void *image) {
  ENTER(true);
  uint64_t bytes, arch;
  if (memcmp(image, MAGIC, 8)) return INVALID_IMAGE;
  memcpy(&bytes, (const char *)image + 8, 8);
  memcpy(&arch, (const char *)image + 16, 8);
  if (arch != setting("arch")) return NO_BINARY_FOR_GPU;
  /* The loader knows libraries by their names, so that each has to have one of its own. */
  char path[] = "/tmp/fake-cubin-XXXXXX";
  int file = mkstemp(path);
  if (file < 0 || write(file, (const char *)image + HEADER, bytes) != (ssize_t)bytes) return INVALID_IMAGE;
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  close(file);
  unlink(path);
  if (!library) {
    mistake(function, dlerror());
    return INVALID_IMAGE;
  }
  auto *module = new Module{library, {}};
  driver.modules.insert(module);
  *handle = module;
  return OK;
}

API int cuModuleUnload(void *handle) {
  ENTER(true);
  auto at = driver.modules.find((Module *)handle);
  if (at == driver.modules.end()) {
    mistake(function, "there is no such module");
    return INVALID_VALUE;
  }
  for (Address global : (*at)->globals) remove_range(driver.ranges.find(global));
  dlclose((*at)->library);
  delete *at;
  driver.modules.erase(at);
  return OK;
}

API int cuModuleGetFunction(void **kernel, void *handle, const char *name) {
  ENTER(true);
  auto *module = (Module *)handle;
  auto *bytes = (const int64_t *)dlsym(module->library, "heddle_fake_env_bytes");
  auto *run = dlsym(module->library, "heddle_fake_run");
  if (strcmp(name, "heddle_run") || !bytes || !run) return NOT_FOUND;
  auto *resident = (const int64_t *)dlsym(module->library, "heddle_resident_bytes");
  size_t resident_bytes = resident ? (size_t)*resident : 0;
  auto *cluster = (const int64_t *)dlsym(module->library, "heddle_cluster_blocks");
  driver.kernels.emplace_back(new Kernel{(decltype(Kernel::run))run, (size_t)*bytes, resident_bytes, USUAL_SHARED, cluster ? (uint32_t)*cluster : 1});
  *kernel = driver.kernels.back().get();
  return OK;
}

API int cuModuleGetGlobal_v2(Address *address, size_t *bytes, void *handle, const char *name) {
  ENTER(true);
  auto *module = (Module *)handle;
  void *symbol = dlsym(module->library, name);
  Dl_info info;
  const ElfW(Sym) *entry = nullptr;
  if (!symbol || !dladdr1(symbol, &info, (void **)&entry, RTLD_DL_SYMENT) || !entry) return NOT_FOUND;
  *bytes = entry->st_size;
  *address = add_range(*bytes, ALLOC);
  module->globals.push_back(*address);
  memcpy(host_of(*address), symbol, *bytes);
  return OK;
}

API int cuFuncSetAttribute(void *handle, int attribute, int value) {
  ENTER(true);
  if (attribute != 8) mistake(function, "attribute " + std::to_string(attribute));
  if (attribute != 8 || value < 0 || (size_t)value > (size_t)setting("shared")) return INVALID_VALUE;
  ((Kernel *)handle)->allowed = (size_t)value;
  return OK;
}

/* The simulator knows no registers: a setting says what they do not hold. */
API int cuFuncGetAttribute(int *value, int attribute, void *) {
  ENTER(true);
  if (attribute != 3) {
    mistake(function, "attribute " + std::to_string(attribute));
    return INVALID_VALUE;
  }
  *value = (int)setting("local");
  return OK;
}

API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *, int threads, size_t shared) {
  ENTER(true);
  bool fits = threads <= (int)setting("threads") && shared <= (size_t)setting("shared");
  *blocks = fits ? (int)setting("blocks") : 0;
  return OK;
}

API int cuStreamCreate(void **stream, unsigned) {
  ENTER(true);
  auto *made = new Stream;
  made->worker = std::thread(serve, made);
  driver.streams.insert(made);
  *stream = made;
  return OK;
}

API int cuStreamDestroy_v2(void *handle) {
  Stream *stream;
  {
    ENTER(true);
    if (!(stream = known(function, handle))) return INVALID_VALUE;
    driver.streams.erase(stream);
  }
  end_stream(stream);
  return OK;
}

API int cuStreamSynchronize(void *handle) {
  Stream *stream;
  {
    ENTER(true);
    if (!(stream = known(function, handle))) return INVALID_VALUE;
  }
  std::unique_lock<std::mutex> held(stream->lock);
  stream->changed.wait(held, [&] { return stream->work.empty() && !stream->busy; });
  return stream->failed;
}

API int cuStreamQuery(void *handle) {
  ENTER(true);
  Stream *stream = known(function, handle);
  if (!stream) return INVALID_VALUE;
  std::lock_guard<std::mutex> held(stream->lock);
  return !stream->work.empty() || stream->busy ? NOT_READY : stream->failed;
}

API int cuMemGetInfo_v2(size_t *free, size_t *total) {
  ENTER(true);
  *total = setting("memory");
  *free = *total > driver.used ? *total - driver.used : 0;
  return OK;
}

API int cuMemAlloc_v2(Address *address, size_t bytes) {
  ENTER(true);
  if (!bytes) {
    mistake(function, "no bytes");
    return INVALID_VALUE;
  }
  if (bytes > setting("memory") - driver.used) return OUT_OF_MEMORY;
  *address = add_range(bytes, ALLOC);
  return OK;
}

API int cuMemFree_v2(Address address) {
  ENTER(true);
  auto at = driver.ranges.find(address);
  if (at == driver.ranges.end() || at->second.kind != ALLOC) {
    mistake(function, "no memory begins there");
    return INVALID_VALUE;
  }
  remove_range(at);
  return OK;
}

API int cuMemsetD8Async(Address to, uint8_t byte, size_t bytes, void *handle) {
  ENTER(true);
  Stream *stream = known(function, handle);
  if (!stream || !is_there(to, bytes)) {
    mistake(function, "it leaves the memory");
    return INVALID_VALUE;
  }
  return add_work(stream, [=] {
    memset(host_of(to), byte, bytes);
    return (int)OK;
  });
}

API int cuMemcpyHtoDAsync_v2(Address to, const void *from, size_t bytes, void *handle) {
  ENTER(true);
  Stream *stream = known(function, handle);
  if (!stream || !is_there(to, bytes)) {
    mistake(function, "it leaves the memory");
    return INVALID_VALUE;
  }
  return add_work(stream, [=] {
    memcpy(host_of(to), from, bytes);
    return (int)OK;
  });
}

API int cuMemcpyDtoHAsync_v2(void *to, Address from, size_t bytes, void *handle) {
  ENTER(true);
  Stream *stream = known(function, handle);
  if (!stream || !is_there(from, bytes)) {
    mistake(function, "it leaves the memory");
    return INVALID_VALUE;
  }
  return add_work(stream, [=] {
    memcpy(to, host_of(from), bytes);
    return (int)OK;
  });
}

API int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
  ENTER(true);
  if (!(flags & 2)) mistake(function, "the device is not to read it");
  *memory = host_of(add_range(bytes, HOST));
  return OK;
}

API int cuMemFreeHost(void *memory) {
  ENTER(true);
  auto at = driver.ranges.find((Address)(driver.device + ((uint8_t *)memory - driver.host)));
  if (at == driver.ranges.end() || at->second.kind != HOST) {
    mistake(function, "no memory begins there");
    return INVALID_VALUE;
  }
  remove_range(at);
  return OK;
}

API int cuMemHostGetDevicePointer_v2(Address *address, void *memory, unsigned) {
  ENTER(true);
  *address = (Address)(driver.device + ((uint8_t *)memory - driver.host));
  auto at = driver.ranges.find(*address);
  return at != driver.ranges.end() && at->second.kind == HOST ? OK : INVALID_VALUE;
}

API int cuMemGetAllocationGranularity(size_t *bytes, const void *, int) {
  ENTER(false);
  *bytes = GRANULE;
  return OK;
}

API int cuMemAddressReserve(Address *address, size_t bytes, size_t, Address, uint64_t) {
  ENTER(true);
  if (!bytes || bytes % GRANULE) {
    mistake(function, "no multiple of the granule");
    return INVALID_VALUE;
  }
  auto spare = driver.spare.find(bytes);
  if (spare != driver.spare.end()) {
    *address = spare->second;
    driver.spare.erase(spare);
    driver.reserved[*address] = {bytes};
    return OK;
  }
  driver.next = (driver.next + GRANULE - 1) / GRANULE * GRANULE;
  if (bytes > ARENA - driver.next - 2 * GRANULE) return OUT_OF_MEMORY;
  *address = (Address)(driver.device + driver.next);
  driver.next += bytes;
  driver.reserved[*address] = {bytes};
  return OK;
}

API int cuMemAddressFree(Address address, size_t bytes) {
  ENTER(true);
  auto at = driver.reserved.find(address);
  auto range = driver.ranges.lower_bound(address);
  bool mapped = range != driver.ranges.end() && range->first < address + bytes;
  if (at == driver.reserved.end() || at->second.bytes != bytes || mapped) {
    mistake(function, mapped ? "memory is mapped there" : "it was not reserved");
    return INVALID_VALUE;
  }
  driver.reserved.erase(at);
  driver.spare.emplace(bytes, address);
  return OK;
}

#ifndef OLD
API int cuMemCreate(uint64_t *handle, size_t bytes, const void *, uint64_t) {
  ENTER(true);
  if (!bytes || bytes % GRANULE) {
    mistake(function, "no multiple of the granule");
    return INVALID_VALUE;
  }
  if (bytes > setting("memory") - driver.used) return OUT_OF_MEMORY;
  driver.used += bytes;
  *handle = driver.next_pages++;
  driver.pages[*handle] = {bytes, false, false};
  return OK;
}
#endif

namespace {
void drop_pages(std::map<uint64_t, Pages>::iterator at) {
  if (at->second.mapped || !at->second.released) return;
  driver.used -= at->second.bytes;
  driver.pages.erase(at);
}
} // namespace

API int cuMemRelease(uint64_t handle) {
  ENTER(true);
  auto at = driver.pages.find(handle);
  if (at == driver.pages.end() || at->second.released) {
    mistake(function, "there is no such memory");
    return INVALID_VALUE;
  }
  at->second.released = true;
  drop_pages(at);
  return OK;
}

API int cuMemMap(Address address, size_t bytes, size_t offset, uint64_t handle, uint64_t) {
  ENTER(true);
  auto pages = driver.pages.find(handle);
  auto range = driver.reserved.upper_bound(address);
  bool inside = range != driver.reserved.begin() && (--range, address + bytes <= range->first + range->second.bytes);
  bool fits = pages != driver.pages.end() && !pages->second.mapped && offset == 0 && bytes == pages->second.bytes;
  if (!inside || !fits || address % GRANULE || driver.page_of.count(address) || is_there(address, 1)) {
    mistake(function, "memory or addresses do not fit");
    return INVALID_VALUE;
  }
  pages->second.mapped = true;
  driver.page_of[address] = handle;
  return OK;
}

API int cuMemSetAccess(Address address, size_t bytes, const void *, size_t) {
  ENTER(true);
  auto at = driver.page_of.find(address);
  if (at == driver.page_of.end() || driver.pages[at->second].bytes != bytes || driver.ranges.count(address)) {
    mistake(function, "it is not what was mapped");
    return INVALID_VALUE;
  }
  Range range = {bytes, MAPPED, (size_t)((uint8_t *)address - driver.device), bytes};
  driver.ranges[address] = range;
  /* All of it at once would make the pages real that nobody uses. */
  memset(host_of(address), 0xff, bytes < ((size_t)16 << 20) ? bytes : (size_t)16 << 20);
  if (driver.running) protect(range, true);
  return OK;
}

API int cuMemUnmap(Address address, size_t bytes) {
  ENTER(true);
  auto at = driver.page_of.find(address);
  if (at == driver.page_of.end() || driver.pages[at->second].bytes != bytes) {
    mistake(function, "it is not what was mapped");
    return INVALID_VALUE;
  }
  auto range = driver.ranges.find(address);
  if (range != driver.ranges.end()) remove_range(range);
  auto pages = driver.pages.find(at->second);
  pages->second.mapped = false;
  driver.page_of.erase(at);
  drop_pages(pages);
  return OK;
}

/* What a launch is asked for: false if it is none of ours. */
static bool is_shape(const char *function, const LaunchConfig *config, const Kernel *kernel, uint32_t *cluster) {
  bool cooperative = false;
  *cluster = 1;
  for (unsigned i = 0; i < config->count; i++) {
    const LaunchAttribute &attribute = config->attributes[i];
    if (attribute.id == 2) cooperative = attribute.value[0] != 0;
    if (attribute.id == 4 && attribute.value[1] == 1 && attribute.value[2] == 1) *cluster = attribute.value[0];
  }
  const unsigned *blocks = config->blocks, *threads = config->threads;
  if (!cooperative || blocks[1] != 1 || blocks[2] != 1 || threads[1] != 1 || threads[2] != 1 || !blocks[0] || !threads[0]) {
    mistake(function, "its shape");
    return false;
  }
  if (*cluster != kernel->cluster) {
    mistake(function, "other clusters than its kernel needs");
    return false;
  }
  return *cluster >= 1 && *cluster <= 8 && blocks[0] % *cluster == 0;
}

/* Clusters that fit at once, of so many blocks. */
static unsigned fitting(uint32_t cluster) {
  return (unsigned)std::min(setting("sms") * setting("blocks") / cluster, setting("clusters"));
}

API int cuOccupancyMaxActiveClusters(int *clusters, void *handle, const LaunchConfig *config) {
  ENTER(true);
  uint32_t cluster;
  if (!is_shape(function, config, (Kernel *)handle, &cluster)) return INVALID_VALUE;
  bool fits = config->threads[0] <= setting("threads") && config->shared <= setting("shared");
  *clusters = fits ? (int)fitting(cluster) : 0;
  return OK;
}

API int cuLaunchKernelEx(const LaunchConfig *config, void *handle, void **arguments, void **) {
  ENTER(true);
  Stream *stream = known(function, config->stream);
  auto *kernel = (Kernel *)handle;
  uint32_t cluster, blocks = config->blocks[0], threads = config->threads[0], shared = config->shared;
  if (!stream) mistake(function, "its stream");
  if (!stream || !is_shape(function, config, kernel, &cluster)) return INVALID_VALUE;
  if (shared > kernel->allowed) {
    mistake(function, "more bytes of a block than it was told of");
    return INVALID_VALUE;
  }
  if (shared != kernel->resident_bytes) {
    mistake(function, "other bytes of a block than its kernel needs");
    return INVALID_VALUE;
  }
  if (threads > setting("threads")) return OUT_OF_RESOURCES;
  if (blocks > setting("sms") * setting("blocks")) return TOO_MANY_BLOCKS;
  if (cluster > 1 && blocks / cluster > fitting(cluster)) return TOO_MANY_BLOCKS;
  auto *env = (const uint8_t *)arguments[0];
  std::vector<uint8_t> copy(env, env + kernel->env_bytes);
  Simulation simulation = {};
  simulation.blocks = blocks, simulation.threads = threads, simulation.cluster = cluster;
  simulation.warp = (uint32_t)setting("warp"), simulation.seed = setting("seed");
  /* A GPU knows no livelock. */
  simulation.patient = 1;
  return add_work(stream, [=] { return run_kernel(kernel, copy, simulation); });
}
