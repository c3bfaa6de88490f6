#include "reference/mutants.h"

namespace flashbench {

namespace {

class FaultyImplementation final : public Implementation {
 public:
  explicit FaultyImplementation(const FaultEntry& entry) : entry_(entry) {}

  std::string_view name() const override { return entry_.name; }
  std::string_view description() const override { return entry_.description; }
  DeviceKind device() const override { return DeviceKind::cpu; }
  Kind kind() const override { return Kind::fused; }

  std::optional<std::string> unsupported(const Problem& /*problem*/,
                                         const DeviceInfo& /*device*/) const override {
    return std::nullopt;
  }
  Arithmetic arithmetic(const Problem& /*problem*/) const override { return {}; }
  std::int64_t workspace_bytes(const Problem& /*problem*/,
                               const DeviceInfo& /*device*/) const override {
    return 0;
  }
  std::optional<std::vector<StepModel>> model(const Problem& /*problem*/,
                                              const DeviceInfo& /*device*/) const override {
    return std::nullopt;
  }
  Plan plan(const Problem& problem, const Operands& operands, void* /*workspace*/,
            Device& /*device*/) const override {
    const Fault fault = entry_.fault;
    Plan plan;
    plan.steps.push_back({"attention", [problem, operands, fault](Stream /*stream*/) {
                            faulty_attention(problem, operands, fault);
                          }});
    return plan;
  }

 private:
  FaultEntry entry_;
};

}  // namespace

Catalogue mutant_catalogue() {
  Catalogue catalogue;
  for (const FaultEntry& entry : faults()) {
    catalogue.push_back(std::make_unique<FaultyImplementation>(entry));
  }
  return catalogue;
}

std::unique_ptr<Implementation> make_plain_tiled() {
  return std::make_unique<FaultyImplementation>(FaultEntry{
      Fault::none, "plain-tiled", "tiled attention with online softmax, without a fault"});
}

}  // namespace flashbench
