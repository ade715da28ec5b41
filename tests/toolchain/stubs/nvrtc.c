// In the place of libnvrtc: as many entries as the loader asks for, broken in the way that the build chooses.
#include <stddef.h>
#include <string.h>

static int program;
#ifdef STUB_SILENT
static const int outcome = 6;  // the text is refused
static const char log_text[] = "";
#else
static const int outcome = 5;
static const char log_text[] = "nvrtc: error: unrecognized option --no-cache found\n";
#endif

int nvrtcVersion(int* major, int* minor) {
  *major = 13;
#ifdef STUB_MISMATCHED
  *minor = 1;
#else
  *minor = 0;
#endif
  return 0;
}
const char* nvrtcGetErrorString(int result) { return result == 5 ? "NVRTC_ERROR_INVALID_OPTION" : "NVRTC_ERROR"; }
int nvrtcCreateProgram(void** made, const char* source, const char* name, int headers, const char* const* texts,
                       const char* const* names) {
  (void)source, (void)name, (void)headers, (void)texts, (void)names;
  *made = &program;
  return 0;
}
int nvrtcCompileProgram(void* of, int options, const char* const* texts) {
  (void)of, (void)options, (void)texts;
  return outcome;
}
int nvrtcGetProgramLogSize(void* of, size_t* size) {
  (void)of;
  *size = sizeof(log_text);
  return 0;
}
int nvrtcGetProgramLog(void* of, char* text) {
  (void)of;
  memcpy(text, log_text, sizeof(log_text));
  return 0;
}
int nvrtcGetCUBINSize(void* of, size_t* size) {
  (void)of;
  *size = 0;
  return 0;
}
#ifndef STUB_INCOMPLETE
int nvrtcGetCUBIN(void* of, char* bytes) {
  (void)of, (void)bytes;
  return 0;
}
#endif
int nvrtcGetPTXSize(void* of, size_t* size) { return nvrtcGetCUBINSize(of, size); }
int nvrtcGetPTX(void* of, char* bytes) {
  (void)of, (void)bytes;
  return 0;
}
int nvrtcDestroyProgram(void** of) {
  *of = NULL;
  return 0;
}
