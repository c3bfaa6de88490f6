#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "process.h"

namespace flashbench {

/// The Python that the distribution's python3-jsonschema belongs to, where another comes first in
/// PATH without it.
inline std::string python_with_jsonschema() {
  const bool first = run_program({"python3", "-c", "import jsonschema"}).code == 0;
  return first ? "python3" : "/usr/bin/python3";
}

/// What of each of `documents` (JSON text) breaks results/schema/<schema>.schema.json, by
/// python3-jsonschema, and JSON itself (NaN, a name twice in an object); empty where nothing does.
/// A machine without that package gives its complaint and so a failure, never a pass.
inline std::vector<std::string> schema_violations(const std::vector<std::string>& documents,
                                                  const std::string& schema = "run") {
  const TemporaryDirectory directory;
  const std::string program = R"(
import json, sys
import jsonschema
def constant(name): raise ValueError(name + ' is not JSON')
def pairs(items):
    names = [name for name, value in items]
    if len(names) != len(set(names)): raise ValueError('a name twice in ' + str(names))
    return dict(items)
schema = json.load(open(sys.argv[1]))
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema)
for path in sys.argv[2:]:
    with open(path + '.out', 'w') as out:
        document = json.load(open(path), parse_constant=constant, object_pairs_hook=pairs)
        for error in validator.iter_errors(document):
            print('/'.join(map(str, error.absolute_path)) + ': ' + error.message[:300], file=out)
)";
  std::vector<std::string> command{
      "python3", "-c", program, FLASHBENCH_SOURCE_DIR "/results/schema/" + schema + ".schema.json"};
  for (std::size_t i = 0; i < documents.size(); ++i) {
    command.push_back(directory.file("document" + std::to_string(i)));
    write_file(command.back(), documents[i]);
  }
  const Outcome outcome = run_program(command);
  std::vector<std::string> violations;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const std::string found = directory.file("document" + std::to_string(i) + ".out");
    violations.push_back(outcome.code == 0 ? read_file(found) : "no verdict: " + outcome.err);
  }
  return violations;
}

inline std::string schema_violations(const std::string& document,
                                     const std::string& schema = "run") {
  return schema_violations(std::vector<std::string>{document}, schema).front();
}

}  // namespace flashbench
