# llama.cpp's helper library is not used, and its own build forces the option back on unless a project include sets it.
set(LLAMA_BUILD_COMMON OFF)
