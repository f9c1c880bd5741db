# Read by CMake right after the project() call of llama-cpp-python's build (CMAKE_PROJECT_INCLUDE).

# The common library serves llama.cpp's own programs alone; the option by itself is forced back on.
set(LLAMA_BUILD_COMMON OFF)

# GCC drops the tile configuration of llama.cpp's AMX code as a dead store, so that its first tile instruction is
# an illegal one on every CPU that has AMX. To be removed once a released llama.cpp keeps the store.
if (CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
    include(CheckCCompilerFlag)
    foreach (feature tile int8 bf16)
        check_c_compiler_flag(-mno-amx-${feature} DS4_KNOWS_AMX_${feature})
        if (DS4_KNOWS_AMX_${feature})
            string(PREPEND CMAKE_C_FLAGS "-mno-amx-${feature} ")
            string(PREPEND CMAKE_CXX_FLAGS "-mno-amx-${feature} ")
        endif ()
    endforeach ()
endif ()
