/* An NVRTC for tests: a "cubin" is a library that the host's C++ compiler makes of CUDA text with Heddle's sim.h, which the fake driver
 * (libcuda.cpp) runs on the simulator.
 *
 * Built with -DSIM_H="PATH". HEDDLE_FAKE_NVRTC=reject has it reject every text; HEDDLE_BUILD_LEVEL is the compiler's level, else 1. */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))

namespace {

enum Result { OK = 0, INVALID_INPUT = 3, INVALID_PROGRAM = 4, INVALID_OPTION = 5, COMPILATION = 6 };

struct Program {
  std::string text, log, cubin;
};

const int ARCHS[] = {75, 80, 86, 89, 90, 100};

std::string content(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream all;
  all << file.rdbuf();
  return all.str();
}

/* What the fake driver calls: the environment with the simulation that it is to have. */
const char CALL[] = R"(
extern "C" __attribute__((visibility("default"))) const int64_t heddle_fake_env_bytes = sizeof(heddle_env);
extern "C" __attribute__((visibility("default"))) int32_t heddle_fake_run(const void *given, heddle_simulation *host) {
  heddle_env env = *(const heddle_env *)given;
  env.arguments = host;
  return heddle_main(&env, 0, 1);
}
)";

} // namespace

API int nvrtcVersion(int *major, int *minor) {
  *major = 12, *minor = 4;
  return OK;
}

API int nvrtcGetNumSupportedArchs(int *count) {
  *count = sizeof ARCHS / sizeof *ARCHS;
  return OK;
}

API int nvrtcGetSupportedArchs(int *archs) {
  memcpy(archs, ARCHS, sizeof ARCHS);
  return OK;
}

API int nvrtcCreateProgram(void **program, const char *text, const char *, int headers, const char *const *, const char *const *) {
  if (headers) return INVALID_INPUT;
  *program = new Program{text, "", ""};
  return OK;
}

API int nvrtcDestroyProgram(void **program) {
  delete (Program *)*program;
  *program = nullptr;
  return OK;
}

API int nvrtcCompileProgram(void *handle, int count, const char *const *options) {
  auto *program = (Program *)handle;
  uint64_t arch = 0;
  std::string contract = "fast", defines, define = "--define-macro=";
  for (int i = 0; i < count; i++) {
    std::string option = options[i], prefix = "--gpu-architecture=sm_";
    if (option.rfind(prefix, 0) == 0)
      arch = strtoull(option.c_str() + prefix.size(), nullptr, 10);
    else if (option == "--fmad=false")
      contract = "off";
    else if (option.rfind(define, 0) == 0)
      defines += " -D" + option.substr(define.size());
    else if (option != "--std=c++17" && option != "--disable-warnings")
      return INVALID_OPTION;
  }
  bool known = false;
  for (int number : ARCHS) known |= arch == (uint64_t)number;
  if (!known) return INVALID_OPTION;
  const char *wish = getenv("HEDDLE_FAKE_NVRTC");
  if (wish && !strcmp(wish, "reject")) {
    program->log = "program.cu(1): error: identifier \"sesame\" is undefined\n";
    return COMPILATION;
  }
  const char *level = getenv("HEDDLE_BUILD_LEVEL"), *folder = getenv("TMPDIR");
  std::string place = std::string(folder ? folder : "/tmp") + "/fake-nvrtc-XXXXXX";
  if (!mkdtemp(place.data())) return INVALID_PROGRAM;
  std::ofstream(place + "/program.cu") << program->text << CALL;
  std::string command = "cd '" + place + "' && g++ -x c++ -std=gnu++17 -include '" SIM_H "' -O" + (level ? level : "1") +
                        " -ffp-contract=" + contract + defines +
                        " -march=native -w -fno-exceptions -fno-rtti -fwrapv -fno-strict-aliasing -fno-math-errno"
                        " -fno-trapping-math -fno-stack-protector -U_FORTIFY_SOURCE -fvisibility=hidden -fPIC -shared"
                        " program.cu -o library >log 2>&1";
  int status = system(command.c_str());
  program->log = content(place + "/log");
  std::string library = content(place + "/library");
  status |= system(("rm -r '" + place + "'").c_str());
  if (status || library.empty()) return COMPILATION;
  uint64_t bytes = library.size();
  program->cubin = "HDLFAKE1";
  program->cubin.append((const char *)&bytes, 8).append((const char *)&arch, 8).append(library);
  return OK;
}

API int nvrtcGetProgramLogSize(void *program, size_t *bytes) {
  *bytes = ((Program *)program)->log.size() + 1;
  return OK;
}

API int nvrtcGetProgramLog(void *program, char *log) {
  memcpy(log, ((Program *)program)->log.c_str(), ((Program *)program)->log.size() + 1);
  return OK;
}

API int nvrtcGetCUBINSize(void *program, size_t *bytes) {
  *bytes = ((Program *)program)->cubin.size();
  return OK;
}

API int nvrtcGetCUBIN(void *program, char *cubin) {
  memcpy(cubin, ((Program *)program)->cubin.data(), ((Program *)program)->cubin.size());
  return OK;
}
