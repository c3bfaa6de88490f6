#!/usr/bin/env python3
"""count_tests.py JUNIT_XML: prints "passed failed skipped", the cases of a report that ctest wrote."""

import sys
import xml.etree.ElementTree as xml


def main():
    try:
        cases = xml.parse(sys.argv[1]).getroot().findall("testcase")
    except (OSError, xml.ParseError) as error:
        sys.exit(f"no report of ctest: {error}")
    if not cases:
        sys.exit("ctest found no test")
    counts = {"run": 0, "fail": 0, "notrun": 0}
    for case in cases:
        # gtest_discover_tests stands in for a program that could not list its tests with a case that "did not run".
        broken = case.get("status") == "notrun" and "NOT_BUILT" in case.get("name")
        counts["fail" if broken else {"disabled": "notrun"}.get(case.get("status"), case.get("status"))] += 1
    print(counts["run"], counts["fail"], counts["notrun"])


if __name__ == "__main__":
    main()
