# Compiler and linker options: flashbench_options for all code, flashbench_cuda besides for what nvcc compiles.

find_program(FLASHBENCH_CCACHE ccache)
mark_as_advanced(FLASHBENCH_CCACHE)
foreach(language CXX CUDA)
  if(FLASHBENCH_CCACHE AND NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
    set(CMAKE_${language}_COMPILER_LAUNCHER ${FLASHBENCH_CCACHE})
  endif()
endforeach()

add_library(flashbench_options INTERFACE)
target_compile_options(flashbench_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror>)
# GCC 12 and 13 see overlapping copies in std::string's operator+ where there are none (GCC bug 105651).
target_compile_options(flashbench_options INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>)
# What a program does not use of a library it need not find when it starts.
target_link_options(flashbench_options INTERFACE LINKER:--as-needed)

if(FLASHBENCH_SANITIZE)
  target_compile_options(flashbench_options INTERFACE
    -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_compile_definitions(flashbench_options INTERFACE _GLIBCXX_ASSERTIONS)
  target_link_options(flashbench_options INTERFACE -fsanitize=address,undefined)
endif()

if(FLASHBENCH_CUDA)
  # ptxas' report on an object (registers, spills) is kept beside it, as OBJECT.ptxas, for scripts/check_ptxas.py.
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${PROJECT_SOURCE_DIR}/cmake/keep_ptxas_report.sh ${CMAKE_CUDA_COMPILER_LAUNCHER})

  add_library(flashbench_cuda INTERFACE)
  target_compile_options(flashbench_cuda INTERFACE
    "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Werror;-Werror=all-warnings;--expt-relaxed-constexpr>"
    "$<$<COMPILE_LANGUAGE:CUDA>:-Xptxas=-v>"
    "$<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<CONFIG:Debug,RelWithDebInfo>>:-lineinfo>")

  # CUPTI's headers: beside the others, or in a folder of their own. The library is loaded when it is asked for.
  find_path(FLASHBENCH_CUPTI_INCLUDE cupti_range_profiler.h
    HINTS ${CUDAToolkit_INCLUDE_DIRS} PATHS ${CUDAToolkit_LIBRARY_ROOT} ${CUDAToolkit_LIBRARY_DIR}/..
    PATH_SUFFIXES extras/CUPTI/include include NO_DEFAULT_PATH)
  mark_as_advanced(FLASHBENCH_CUPTI_INCLUDE)
  if(FLASHBENCH_CUPTI_INCLUDE)
    target_include_directories(flashbench_cuda SYSTEM INTERFACE ${FLASHBENCH_CUPTI_INCLUDE})
    target_compile_definitions(flashbench_cuda INTERFACE FLASHBENCH_CUPTI)
  endif()
endif()
