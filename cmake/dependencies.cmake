# The libraries, all from the distribution. Debian 12 and Ubuntu 24.04 ship CMake files for each; where OpenBLAS
# and Highway come without (other distributions), the library and the header are looked for.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)

# Debian's CMake file names the variant that is the system's choice; its cblas.h is OpenBLAS's own, which declares
# what the reference BLAS lacks.
find_package(OpenBLAS QUIET)
if(OpenBLAS_FOUND)
  set(flashbench_openblas_include ${OpenBLAS_INCLUDE_DIRS})
  set(flashbench_openblas_library ${OpenBLAS_LIBRARIES})
else()
  find_library(flashbench_openblas_library openblas REQUIRED)
  find_path(flashbench_openblas_include openblas_config.h PATH_SUFFIXES openblas REQUIRED)
endif()
add_library(flashbench_openblas INTERFACE)
target_include_directories(flashbench_openblas SYSTEM INTERFACE ${flashbench_openblas_include})
# Loaded at run time, not linked: reference/openblas.h says why.
target_link_libraries(flashbench_openblas INTERFACE ${CMAKE_DL_LIBS})

find_package(hwy QUIET)
if(NOT TARGET hwy::hwy)
  find_library(flashbench_hwy_library hwy REQUIRED)
  find_path(flashbench_hwy_include hwy/highway.h REQUIRED)
  add_library(hwy::hwy INTERFACE IMPORTED)
  target_include_directories(hwy::hwy SYSTEM INTERFACE ${flashbench_hwy_include})
  target_link_libraries(hwy::hwy INTERFACE ${flashbench_hwy_library})
endif()
