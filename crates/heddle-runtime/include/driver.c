/* Runs an emitted program in a process of its own, so that a sanitizer can watch it.
 *
 *     program REQUEST ANSWER
 *
 * If the request says so, the team changes at random: at each point about half of the workers leave, and those that left want
 * back.
 *
 * Both files are streams of 64-bit words, with data in between:
 *   request  alarm seconds, runs, workers, max_depth, max_iterations, patience, yields,
 *            whether the team changes, sizes (count, words), inputs (count, each: rank, dims, bytes, data), constants (count,
 *            each: bytes, data), table (count, words), scratch bytes, outputs (count, each: bytes), their elements
 *            (count, each: bytes if the output grows, else 0), segments
 *   answer   kind (0 done, 1 error); 0: outputs (count, each: rank, dims, bytes, data); 1: code, site,
 *            two values
 *
 * HEDDLE_MAX_RANK dims each, of which the rank tells how many count.
 *
 * All memory is allocated to the byte, so that accesses beyond the end are found.
 */
#include <pthread.h>
#include <sys/mman.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const heddle_about heddle_program;

static FILE *request, *answer;

static void die(const char *what) {
  fprintf(stderr, "driver: %s\n", what);
  exit(70);
}

static int64_t get(void) {
  int64_t word;
  if (fread(&word, sizeof word, 1, request) != 1) die("the request is too short");
  return word;
}

static void put(int64_t word) {
  if (fwrite(&word, sizeof word, 1, answer) != 1) die("the answer can't be written");
}

/* An empty array has a place, too: a load whose value is not used may be executed. */
static void *allocate(int64_t bytes) {
  void *data;
  if (posix_memalign(&data, 64, bytes ? bytes : 64)) die("out of memory");
  memset(data, 0xff, bytes);
  return data;
}

static void *get_data(int64_t bytes) {
  void *data = allocate(bytes);
  if (bytes && fread(data, bytes, 1, request) != 1) die("the request is too short");
  return data;
}

static void finish(void) {
  if (fclose(answer)) die("the answer can't be written");
  exit(0);
}

typedef struct task {
  const heddle_env *env;
  int32_t worker, workers, code;
} task;

/* A worker that left the team asks to join again until the run ends. */
static void *work(void *argument) {
  task *t = argument;
  t->code = heddle_main(t->env, t->worker, t->workers);
  while (t->code == HEDDLE_LEFT && !__atomic_load_n(&t->env->sync->ended, __ATOMIC_ACQUIRE))
    t->code = heddle_main(t->env, -1 - t->worker, 0);
  if (t->code == HEDDLE_LEFT) t->code = 0;
  else __atomic_store_n(&t->env->sync->ended, 1, __ATOMIC_RELEASE);
  return NULL;
}

/* The workers of a run: which of them are in the team. Used by who changes the team, one at a time. */
typedef struct crew {
  const heddle_env *env;
  int32_t workers;
  uint64_t dice;
  _Bool *runs;
} crew;

static uint32_t roll(crew *c) {
  c->dice = c->dice * 6364136223846793005u + 1442695040888963407u;
  return c->dice >> 40;
}

static int32_t decide(void *self, int32_t ask) {
  crew *c = self;
  if (ask != HEDDLE_CHANGE) return 1;
  heddle_sync *sync = c->env->sync;
  int32_t half = (__atomic_load_n(&sync->moved, __ATOMIC_RELAXED) + 1) & 1;
  int32_t both = 0, next = 0, stays = roll(c) % __atomic_load_n(&sync->workers, __ATOMIC_RELAXED);
  for (int32_t w = 0; w < c->workers; w++) {
    heddle_unit *unit = &c->env->units[w];
    uint32_t ready = 1;
    both += c->runs[w];
    if (c->runs[w]) {
      /* One of them stays in any case. */
      c->runs[w] = !stays-- || roll(c) % 2;
    } else if (__atomic_compare_exchange_n(&unit->ready, &ready, 2, 0, __ATOMIC_SEQ_CST,
                                           __ATOMIC_SEQ_CST)) {
      both++;
      c->runs[w] = 1;
    }
    __atomic_store_n(&unit->share[half], c->runs[w] ? next : -1, __ATOMIC_RELAXED);
    next += c->runs[w];
  }
  __atomic_store_n(&sync->next, next, __ATOMIC_RELAXED);
  return both;
}

/* Segments of 1 GiB, all of which begin with a page. */
enum { SLOT_BITS = 30, PAGE = 4096 };

typedef struct growth {
  pthread_mutex_t lock;
  uint8_t *segments;
  int64_t *committed;
} growth;

/* Commits whole pages and no more, so that accesses beyond them are found. */
static int32_t grow(void *self, int64_t slot, int64_t bytes, int64_t values[2]) {
  growth *g = self;
  int64_t all = (bytes + PAGE - 1) / PAGE * PAGE, code = 0;
  values[0] = slot;
  values[1] = bytes;
  if (bytes > (int64_t)1 << SLOT_BITS) return HEDDLE_SEGMENT;
  pthread_mutex_lock(&g->lock);
  int64_t had = g->committed[slot];
  if (had < all) {
    uint8_t *start = g->segments + (slot << SLOT_BITS) + had;
    if (mprotect(start, all - had, PROT_READ | PROT_WRITE)) code = HEDDLE_MEMORY;
    else memset(start, 0xff, all - had);
    if (!code) __atomic_store_n(&g->committed[slot], all, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&g->lock);
  return code;
}

static int64_t elements(const heddle_tensor *t) {
  int64_t count = 1;
  for (int32_t d = 0; d < t->rank; d++) count *= t->dims[d];
  return count;
}

int main(int argc, char **argv) {
  if (argc != 3) die("two files are needed");
  request = fopen(argv[1], "rb");
  answer = fopen(argv[2], "wb");
  if (!request || !answer) die("a file can't be opened");

  alarm(get());
  int64_t runs = get(), workers = get();
  uint32_t cancel = 0;
  heddle_error error = {0};
  heddle_env env = {.cancel = &cancel, .error = &error};
  env.max_depth = get();
  env.max_iterations = get();
  env.patience = get();
  env.yields = get();
  _Bool changes = get();

  int64_t size_count = get();
  if (size_count != heddle_program.sizes + 2) die("wrong number of sizes");
  int64_t *sizes = allocate(size_count * 8);
  for (int64_t i = 0; i < size_count; i++) sizes[i] = get();

  int64_t input_count = get();
  if (input_count != heddle_program.inputs) die("wrong number of inputs");
  heddle_tensor *inputs = allocate(input_count * sizeof *inputs);
  for (int64_t i = 0; i < input_count; i++) {
    inputs[i].rank = get();
    for (int d = 0; d < HEDDLE_MAX_RANK; d++) inputs[i].dims[d] = get();
    inputs[i].data = get_data(get());
  }

  int64_t constant_count = get();
  if (constant_count != heddle_program.constants) die("wrong number of constants");
  void **constants = allocate(constant_count * sizeof *constants);
  for (int64_t i = 0; i < constant_count; i++) constants[i] = get_data(get());

  int64_t table_len = get();
  if (table_len != heddle_program.table_len) die("wrong length of the table");
  int64_t *table = allocate(table_len * 8);
  for (int64_t i = 0; i < table_len; i++) table[i] = get();
  int64_t scratch_bytes = get(), output_count = get(), *output_bytes = allocate(output_count * 8);
  if (output_count != heddle_program.outputs) die("wrong number of outputs");
  heddle_tensor *outputs = allocate(output_count * sizeof *outputs);
  for (int64_t i = 0; i < output_count; i++) {
    output_bytes[i] = get();
    outputs[i].data = allocate(output_bytes[i]);
  }
  if (get() != output_count) die("wrong number of outputs");
  int64_t *widths = allocate(output_count * 8);
  for (int64_t i = 0; i < output_count; i++) widths[i] = get();
  int64_t segments = get();
  int64_t *slots = allocate(segments * 8);
  growth g = {.committed = allocate(segments * 8)};
  if (pthread_mutex_init(&g.lock, NULL)) die("no lock");
  env.slots = slots;
  env.slot_bits = SLOT_BITS;
  env.grow = grow;
  env.growth = &g;
  env.inputs = inputs;
  env.outputs = outputs;
  env.constants = (const void *const *)constants;
  env.sizes = sizes;
  env.table = table;
  heddle_sync sync;
  env.sync = &sync;
  void *units;
  if (posix_memalign(&units, 128, workers * sizeof(heddle_unit))) die("out of memory");
  env.units = units;
  task *tasks = allocate(workers * sizeof *tasks);
  pthread_t *threads = allocate(workers * sizeof *threads);

  for (int64_t run = 0; run < runs; run++) {
    memset(&sync, 0, sizeof sync);
    memset(units, 0, workers * sizeof(heddle_unit));
    sync.workers = workers;
    sync.tick = changes;
    crew c = {&env, workers, run, allocate(workers)};
    for (int64_t w = 0; w < workers; w++) {
      env.units[w].slot = w;
      c.runs[w] = 1;
    }
    env.decide = changes ? decide : NULL;
    env.crew = &c;
    env.scratch = allocate(scratch_bytes);
    if (run && segments) munmap(g.segments, segments << SLOT_BITS);
    if (segments) {
      g.segments = mmap(NULL, segments << SLOT_BITS, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (g.segments == MAP_FAILED) die("no addresses");
    }
    env.segments = g.segments;
    env.committed = g.committed;
    for (int64_t s = 0; s < segments; s++) {
      int64_t values[2];
      slots[s] = s;
      g.committed[s] = 0;
      if (grow(&g, s, PAGE, values)) die("out of memory");
    }
    for (int64_t w = 0; w < workers; w++) {
      tasks[w] = (task){&env, w, workers, 0};
      if (pthread_create(&threads[w], NULL, work, &tasks[w])) die("no thread");
    }
    int32_t code = 0;
    for (int64_t w = 0; w < workers; w++) {
      pthread_join(threads[w], NULL);
      if (tasks[w].code) code = tasks[w].code;
    }
    free(env.scratch);
    free(c.runs);
    if (code) {
      put(1);
      put(error.code ? error.code : (uint32_t)code);
      put(error.site);
      put(error.values[0]);
      put(error.values[1]);
      finish();
    }
  }

  put(0);
  put(output_count);
  for (int64_t i = 0; i < output_count; i++) {
    put(outputs[i].rank);
    for (int d = 0; d < HEDDLE_MAX_RANK; d++) put(outputs[i].dims[d]);
    if (widths[i]) output_bytes[i] = elements(&outputs[i]) * widths[i];
    put(output_bytes[i]);
    if (output_bytes[i] && fwrite(outputs[i].data, output_bytes[i], 1, answer) != 1) die("no room");
  }
  finish();
}
