#include "diagnose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "reference/faulty_kernel.h"
#include "reference/oracle.h"
#include "simulated_kernels.h"

namespace flashbench {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

Problem problem_for_faults() {
  Problem problem;
  problem.batch = 2;
  problem.heads = 4;
  problem.kv_heads = 2;
  problem.n_q = 150;
  problem.n_kv = 210;
  problem.head_dim = 64;
  problem.scale = default_scale(64);
  problem.dtype = Dtype::bf16;
  problem.mask = Mask::causal;
  return problem;
}

/// An output of the faulty kernel, to be changed further by a test.
struct Patient {
  explicit Patient(Fault fault, const Problem& problem = problem_for_faults())
      : oracle(make_cpu_oracle()), host(problem, {Distribution::normal, 3}, *oracle) {
    faulty_attention(problem, host.operands(), fault);
  }

  Diagnosis examine() {
    const std::vector<RowId> rows = select_rows(host.problem, 1e12, 0);
    const Operands operands = host.operands();
    const OracleRows truth = oracle->rows(host.problem, operands, rows);
    std::vector<double> got;
    for (const RowId& row : rows) {
      for (std::int64_t c = 0; c < host.problem.head_dim; ++c) {
        got.push_back(load_element(operands.o.data, operands.o.dtype,
                                   operands.o.at(row.batch, row.row, row.head, c)));
      }
    }
    return diagnose(*oracle, host.problem, operands, {}, truth, got);
  }

  std::unique_ptr<Oracle> oracle;
  test::HostProblem host;
};

std::string first_cause(Fault fault, const Problem& problem = problem_for_faults()) {
  const Diagnosis diagnosis = Patient(fault, problem).examine();
  return diagnosis.causes.empty() ? "no cause" : diagnosis.causes.front();
}

TEST(Diagnose, KnowsFaultsByTheirLooks) {
  EXPECT_EQ(first_cause(Fault::scale_missing), "looks like scale missing");
  EXPECT_EQ(first_cause(Fault::scale_squared), "looks like scale applied twice");
  EXPECT_EQ(first_cause(Fault::exponent_in_base_two), "looks like 2^x where e^x was meant");
  EXPECT_EQ(first_cause(Fault::mask_missing), "looks like no mask was applied");
  EXPECT_EQ(first_cause(Fault::mask_top_left), "looks like the mask is aligned top-left");
  EXPECT_EQ(first_cause(Fault::mask_one_late), "looks like the mask lets through one key too many");
  EXPECT_EQ(first_cause(Fault::mask_one_early), "looks like the mask hides one key too many");
  EXPECT_EQ(first_cause(Fault::heads_swapped),
            "looks like heads are mixed up: head 0 holds the output of head 1");
  EXPECT_THAT(first_cause(Fault::group_by_modulo), HasSubstr("mod kv_heads"));
  EXPECT_THAT(first_cause(Fault::not_normalised), HasSubstr("not divided by the sum"));
  EXPECT_EQ(first_cause(Fault::one_key_dropped), "looks like key 105 was left out");
  EXPECT_THAT(first_cause(Fault::sum_misses_last_tile), HasSubstr("right but for a factor"));
}

TEST(Diagnose, KnowsACausalMaskThatWasNotAskedFor) {
  Problem causal = problem_for_faults();
  Patient patient(Fault::none, causal);
  patient.host.problem.mask = Mask::none;
  EXPECT_THAT(patient.examine().causes, Contains("looks like a causal mask was applied"));
}

TEST(Diagnose, KnowsABlockOfKeys) {
  Problem problem = problem_for_faults();
  problem.mask = Mask::none;
  EXPECT_EQ(first_cause(Fault::last_tile_dropped, problem),
            "looks like keys 192 to 209 were left out");
}

TEST(Diagnose, SaysWhere) {
  Patient patient(Fault::none);
  const Tensor out = patient.host.operands().o;
  EXPECT_THAT(patient.examine().places.front(), HasSubstr("0 of 1200 rows"));
  for (std::int64_t n = 100; n < 150; ++n) {
    for (std::int64_t c = 0; c < 16; ++c) {
      store_element(out.data, out.dtype, out.at(1, n, 2, c), 9.0F + static_cast<float>(c + n));
    }
  }
  const Diagnosis diagnosis = patient.examine();
  EXPECT_THAT(diagnosis.places, Contains("50 of 1200 rows looked at are wrong"));
  EXPECT_THAT(diagnosis.places, Contains("only batch 1"));
  EXPECT_THAT(diagnosis.places, Contains("only head 2"));
  EXPECT_THAT(diagnosis.places, Contains(HasSubstr("rows from 100 on are wrong")));
  EXPECT_THAT(diagnosis.places, Contains("only columns 0 to 15"));
  EXPECT_THAT(diagnosis.causes, IsEmpty());
}

TEST(Diagnose, CountsWhatIsNotANumber) {
  Patient patient(Fault::last_row_torn);
  const Diagnosis diagnosis = patient.examine();
  EXPECT_THAT(diagnosis.places, Contains(HasSubstr("256 elements are NaN")));
  EXPECT_THAT(diagnosis.places, Contains(HasSubstr("rows from 149 on are wrong")));
}

TEST(Diagnose, ZerosAndScalesAreNamed) {
  Patient zeros(Fault::none);
  std::fill(zeros.host.o.begin(), zeros.host.o.end(), std::uint8_t{0});
  EXPECT_THAT(zeros.examine().causes, Contains("the output is 0"));
  Patient scaled(Fault::none);
  const Tensor out = scaled.host.operands().o;
  for (std::int64_t i = 0; i < scaled.host.problem.q_elements(); ++i) {
    store_element(out.data, out.dtype, i,
                  1.5F * static_cast<float>(load_element(out.data, out.dtype, i)));
  }
  EXPECT_THAT(scaled.examine().causes, Contains("looks like the output is scaled by 1.5"));
}

}  // namespace
}  // namespace flashbench
