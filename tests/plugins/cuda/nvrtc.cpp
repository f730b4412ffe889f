/* Stand-in for NVRTC: CUDA C becomes a library of the host, which the stand-in for libcuda loads.
 *
 * PRELUDE is kernel.h. STANDIN_NVRTC is the version, 13 otherwise; a source with `fault_build` in it is given an error. */

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

struct Program {
    std::string name, source, log, code;
};

EXPORT unsigned nvrtcVersion(int *major, int *minor) {
    const char *text = getenv("STANDIN_NVRTC");
    *major = text ? atoi(text) : 13;
    *minor = 0;
    return 0;
}
EXPORT const char *nvrtcGetErrorString(unsigned code) {
    return code == 0 ? "NVRTC_SUCCESS" : code == 6 ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR_INVALID_INPUT";
}
EXPORT unsigned nvrtcGetNumSupportedArchs(int *out) {
    *out = 3;
    return 0;
}
EXPORT unsigned nvrtcGetSupportedArchs(int *out) {
    out[0] = 80, out[1] = 90, out[2] = 100;
    return 0;
}
EXPORT unsigned nvrtcCreateProgram(Program **out, const char *source, const char *name, int headers, const char *const *,
                                   const char *const *) {
    if (headers)
        return 4;
    *out = new Program{name, source, "", ""};
    return 0;
}
EXPORT unsigned nvrtcDestroyProgram(Program **program) {
    delete *program;
    *program = nullptr;
    return 0;
}

/* Calls of functions of PRELUDE in place of PTX: `asm("add.rn.f16x2 %0, %1, %2;" : "=r"(c) : "r"(a), "r"(b));` becomes
 * `c = standin_add_rn_f16x2(a, b);`. Other results than one are references before the arguments. */
static std::string without_ptx(const std::string &text) {
    static const std::regex ptx("asm(?: volatile)?\\(\"([\\w.:]+)[^\"]*\"([^;]*)\\);");
    static const std::regex operand("\"([=+]?)\\w\"\\(([^()]+)\\)");
    std::string out;
    size_t done = 0;
    for (std::sregex_iterator it(text.begin(), text.end(), ptx), end; it != end; ++it) {
        std::string name = (*it)[1].str(), operands = (*it)[2].str();
        for (char &c : name)
            c = c == '.' || c == ':' ? '_' : c;
        std::vector<std::string> all;
        size_t results = 0;
        for (std::sregex_iterator at(operands.begin(), operands.end(), operand); at != end; ++at) {
            all.push_back((*at)[2].str());
            results += (*at)[1].length();
        }
        out += text.substr(done, it->position() - done);
        size_t next = results == 1 ? 1 : 0;
        if (next)
            out += all[0] + " = ";
        out += "standin_" + name + "(";
        for (size_t i = next; i < all.size(); i++)
            out += (i > next ? ", " : "") + all[i];
        out += ");";
        done = it->position() + it->length();
    }
    return out + text.substr(done);
}

static std::string read(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

EXPORT unsigned nvrtcCompileProgram(Program *program, int count, const char *const *options) {
    bool arch = false;
    for (int i = 0; i < count; i++)
        arch = arch || !strncmp(options[i], "--gpu-architecture=", 19);
    if (!arch)
        return 5;
    std::string text = program->source;
    if (text.find("fault_build") != std::string::npos)
        text = "static int broken = not_declared; " + text;
    text = without_ptx(text);
    size_t body = text.find("/* end of helpers */");
    std::string own = body == std::string::npos ? text : text.substr(body);
    bool fibers = own.find("TL_BARRIER") != std::string::npos || own.find("TL_SHIFT") != std::string::npos;
    std::regex entry("TL_KERNEL void (?:__launch_bounds__\\(\\d+\\) )?(\\w+)\\(");
    std::string entries;
    for (std::sregex_iterator it(own.begin(), own.end(), entry), end; it != end; ++it)
        entries += "STANDIN_ENTRY(" + (*it)[1].str() + ")\n";

    const char *temporary = getenv("TMPDIR");
    std::string folder = std::string(temporary ? temporary : "/tmp") + "/nvrtc-XXXXXX";
    if (!mkdtemp(&folder[0]))
        return 1;
    std::string source = folder + "/k.cpp", library = folder + "/k.so", log = folder + "/log";
    std::ofstream(source) << "#include \"" PRELUDE "\"\n#line 1 \"k.cu\"\n" << text << "\n" << entries;
    /* The headers and libraries of C alone, which take a third of the time of C++'s. */
    std::string command = "c++ -std=c++17 -nostdinc++ -O1 -w -fPIC -shared -nostdlib -ffp-contract=off -fno-strict-aliasing "
                          "-DSTANDIN_FIBERS=" +
                          std::string(fibers ? "1" : "0") + " -o " + library + " " + source + " -lm -lc -lgcc >" + log + " 2>&1";
    bool built = system(command.c_str()) == 0;
    if (built) {
        std::string bytes = read(library);
        uint64_t length = bytes.size();
        program->code = "STAND-IN" + std::string((const char *)&length, 8) + bytes;
    } else {
        /* `k.cu:2:12: error: what` as NVRTC writes it. */
        program->log = std::regex_replace(read(log), std::regex("k\\.cu:(\\d+):\\d+: error"), program->name + "($1): error");
    }
    for (const std::string &file : {source, library, log})
        unlink(file.c_str());
    rmdir(folder.c_str());
    return built ? 0 : 6;
}

static unsigned size(const std::string &bytes, size_t *out) {
    *out = bytes.size() + 1;
    return 0;
}
static unsigned copy(const std::string &bytes, char *out) {
    memcpy(out, bytes.c_str(), bytes.size() + 1);
    return 0;
}
EXPORT unsigned nvrtcGetProgramLogSize(Program *program, size_t *out) { return size(program->log, out); }
EXPORT unsigned nvrtcGetProgramLog(Program *program, char *out) { return copy(program->log, out); }
EXPORT unsigned nvrtcGetCUBINSize(Program *program, size_t *out) { return size(program->code, out); }
EXPORT unsigned nvrtcGetCUBIN(Program *program, char *out) { return copy(program->code, out); }
EXPORT unsigned nvrtcGetPTXSize(Program *program, size_t *out) { return size(program->code, out); }
EXPORT unsigned nvrtcGetPTX(Program *program, char *out) { return copy(program->code, out); }
