/* Launches the program before it on 4 blocks of 64 lanes, or of a warpgroup's, with warps of 32 and 64 and 3 seeds; for each a line: the simulator's
 * finding, its line of the text, the first word of the output, the launch's code, and the looks at words of the host by block 0 and
 * by others. */
int main() {
  for (uint32_t warp = 32; warp <= 64; warp += 32)
    for (uint64_t seed = 1; seed < 4; seed++) {
      static int64_t out[512];
      memset(out, 0, sizeof out);
      heddle_simulation simulation = {};
      simulation.blocks = 4, simulation.threads = CASE >= 19 && CASE <= 26 ? 128 : 64, simulation.warp = warp, simulation.seed = seed;
      simulation.cluster = 2;
      heddle_tensor output = {};
      output.data = out;
      heddle_error error = {};
      uint32_t cancel = 0;
      heddle_unit units[4] = {};
      heddle_sync sync = {};
      heddle_env env = {};
      env.units = units, env.sync = &sync, env.watchdog = UINT64_MAX;
      env.max_iterations = INT64_MAX;
      env.outputs = &output, env.error = &error, env.cancel = &cancel, env.arguments = &simulation;
      int32_t code = heddle_main(&env, 0, 1);
      printf("%d %lld %lld %d %llu %llu\n", simulation.finding, (long long)simulation.line, (long long)out[0], code,
             (unsigned long long)simulation.looks[0], (unsigned long long)simulation.looks[1]);
    }
}
