/* Runs emitted CUDA text in a process of its own, a thread of the operating system for each GPU thread, so that a sanitizer can watch
 * it; it follows the text, which includes threads.h.
 *
 *     program REQUEST ANSWER
 *
 * Both files are those of driver.c, which the request ends with three words more: threads of a block, lanes of a warp, blocks of a cluster. The workers are
 * the blocks. A launch that lacks memory of a segment is followed by one that goes on where it left, as in a session.
 *
 * All memory is allocated to the byte, so that accesses beyond the end are found. Threads begin in order, block by block, so that the
 * sanitizer's numbers say which they are. */
namespace heddle_driver {

static FILE *request, *answer;

static void die(const char *what) {
  fprintf(stderr, "driver: %s\n", what);
  exit(70);
}

static int64_t get() {
  int64_t word;
  if (fread(&word, sizeof word, 1, request) != 1) die("the request is too short");
  return word;
}

static void put(int64_t word) {
  if (fwrite(&word, sizeof word, 1, answer) != 1) die("the answer can't be written");
}

template <class T> static T *allocate(int64_t bytes) {
  void *data;
  if (posix_memalign(&data, 128, bytes ? bytes : 1)) die("out of memory");
  memset(data, 0xff, bytes);
  return (T *)data;
}

static void *get_data(int64_t bytes) {
  void *data = allocate<uint8_t>(bytes);
  if (bytes && fread(data, bytes, 1, request) != 1) die("the request is too short");
  return data;
}

static int64_t *get_words(int64_t expected, const char *what) {
  int64_t count = get();
  if (count != expected) die(what);
  int64_t *words = allocate<int64_t>(count * 8);
  for (int64_t i = 0; i < count; i++) words[i] = get();
  return words;
}

static void finish() {
  if (fclose(answer)) die("the answer can't be written");
  exit(0);
}

/* Segments of 1 GiB. */
enum { SLOT_BITS = 30, PAGE = 4096 };

/* Commits whole pages and no more, so that accesses beyond them are found. */
static void commit(const heddle_env &env, int64_t slot, int64_t bytes) {
  int64_t all = (bytes + PAGE - 1) / PAGE * PAGE, had = env.committed[slot];
  uint8_t *start = env.segments + (slot << SLOT_BITS) + had;
  if (bytes > (int64_t)1 << SLOT_BITS) die("a segment is longer than 1 GiB");
  if (mprotect(start, all - had, PROT_READ | PROT_WRITE)) die("out of memory");
  memset(start, 0xff, all - had);
  ((int64_t *)env.committed)[slot] = all;
}

struct Task {
  const heddle_env *env;
  uint32_t block, lane;
};

static void *work(void *argument) {
  const Task *task = (const Task *)argument;
  heddle_sim::self = {task->block, task->lane, 0};
  if (task->lane == 0) heddle_sim::block().is_there = true;
  heddle_block_main(task->env, (int32_t)task->block, heddle_blocks);
  if (task->lane == 0) heddle_sim::block().is_there = false;
  heddle_sim::cluster().leave(heddle_sim::cluster_lanes());
  return nullptr;
}

/* A launch; barriers and shared arrays are its own. */
static void launch(const heddle_env &env) {
  heddle_sim::Grid &grid = heddle_sim::grid;
  uint32_t all = grid.blocks * grid.threads, warps = (grid.threads + grid.warp - 1) / grid.warp;
  grid.states = new heddle_sim::Block[grid.blocks];
  grid.clusters = new heddle_sim::Barrier[grid.blocks];
  for (uint32_t b = 0; b < grid.blocks; b++) grid.states[b].warps = new heddle_sim::Warp[warps];
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 512 << 10);
  Task *tasks = allocate<Task>(all * sizeof(Task));
  pthread_t *threads = allocate<pthread_t>(all * sizeof(pthread_t));
  for (uint32_t i = 0; i < all; i++) {
    tasks[i] = {&env, i / grid.threads, i % grid.threads};
    if (pthread_create(&threads[i], &small, work, &tasks[i])) die("no thread");
  }
  for (uint32_t i = 0; i < all; i++) pthread_join(threads[i], nullptr);
  for (uint32_t b = 0; b < grid.blocks; b++) {
    for (void *array : grid.states[b].shared) free(array);
    delete[] grid.states[b].warps;
  }
  delete[] grid.states;
  delete[] grid.clusters;
  free(tasks), free(threads);
}

static int64_t elements(const heddle_tensor &t) {
  int64_t count = 1;
  for (int32_t d = 0; d < t.rank; d++) count *= t.dims[d];
  return count;
}

static void run(char **files) {
  request = fopen(files[0], "rb");
  answer = fopen(files[1], "wb");
  if (!request || !answer) die("a file can't be opened");
  alarm((unsigned)get());
  int64_t runs = get(), blocks = get();
  uint32_t cancel = 0;
  heddle_error error = {};
  heddle_sync sync;
  heddle_env env = {};
  env.cancel = &cancel, env.error = &error, env.sync = &sync;
  /* The alarm ends what waits for ever. */
  env.watchdog = UINT64_MAX;
  env.max_depth = get();
  env.max_iterations = get();
  for (int i = 0; i < 3; i++) get();
  env.sizes = get_words(heddle_program.sizes + 2, "wrong number of sizes");
  int64_t inputs = get();
  if (inputs != heddle_program.inputs) die("wrong number of inputs");
  heddle_tensor *given = allocate<heddle_tensor>(inputs * sizeof *given);
  for (int64_t i = 0; i < inputs; i++) {
    given[i].rank = (int32_t)get();
    for (int d = 0; d < HEDDLE_MAX_RANK; d++) given[i].dims[d] = get();
    given[i].data = get_data(get());
  }
  env.inputs = given;
  int64_t count = get();
  if (count != heddle_program.constants) die("wrong number of constants");
  void **constants = allocate<void *>(count * sizeof *constants);
  for (int64_t i = 0; i < count; i++) constants[i] = get_data(get());
  env.constants = (const void *const *)constants;
  env.table = get_words(heddle_program.table_len, "wrong length of the table");
  int64_t scratch = get(), outputs = heddle_program.outputs;
  int64_t *bytes = get_words(outputs, "wrong number of outputs");
  int64_t *widths = get_words(outputs, "wrong number of outputs");
  env.outputs = allocate<heddle_tensor>(outputs * sizeof *env.outputs);
  for (int64_t i = 0; i < outputs; i++) env.outputs[i].data = allocate<uint8_t>(bytes[i]);
  int64_t segments = get();
  int64_t *slots = allocate<int64_t>(segments * 8);
  env.committed = allocate<int64_t>(segments * 8);
  env.slots = slots, env.slot_bits = SLOT_BITS;
  env.units = allocate<heddle_unit>(blocks * (int64_t)sizeof(heddle_unit));
  heddle_sim::grid = {(uint32_t)blocks, (uint32_t)get(), 0, 0, nullptr, nullptr};
  heddle_sim::grid.warp = (uint32_t)get();
  heddle_sim::grid.cluster = (uint32_t)get();

  for (int64_t run = 0; run < runs; run++) {
    env.scratch = allocate<uint8_t>(scratch);
    if (segments) {
      void *all = mmap(nullptr, segments << SLOT_BITS, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (all == MAP_FAILED) die("no addresses");
      env.segments = (uint8_t *)all;
    }
    for (int64_t s = 0; s < segments; s++) {
      slots[s] = s;
      ((int64_t *)env.committed)[s] = 0;
      commit(env, s, PAGE);
    }
    for (uint32_t point = 0;;) {
      memset(&sync, 0, sizeof sync);
      memset(&error, 0, sizeof error);
      memset(env.units, 0, blocks * sizeof(heddle_unit));
      sync.point = point;
      launch(env);
      if (error.code != HEDDLE_SEGMENT) break;
      commit(env, error.values[0] & UINT32_MAX, error.values[1]);
      point = (uint32_t)(error.values[0] >> 32);
    }
    free(env.scratch);
    if (error.code != HEDDLE_OK && error.code != HEDDLE_UNWATCHED) {
      put(1);
      put(error.code);
      put(error.site);
      put(error.values[0]);
      put(error.values[1]);
      finish();
    }
    if (segments && run + 1 < runs) munmap(env.segments, segments << SLOT_BITS);
  }

  put(0);
  put(outputs);
  for (int64_t i = 0; i < outputs; i++) {
    put(env.outputs[i].rank);
    for (int d = 0; d < HEDDLE_MAX_RANK; d++) put(env.outputs[i].dims[d]);
    if (widths[i]) bytes[i] = elements(env.outputs[i]) * widths[i];
    put(bytes[i]);
    if (bytes[i] && fwrite(env.outputs[i].data, bytes[i], 1, answer) != 1) die("no room");
  }
  finish();
}

} // namespace heddle_driver

int main(int argc, char **argv) {
  if (argc != 3) heddle_driver::die("two files are needed");
  heddle_driver::run(argv + 1);
}
