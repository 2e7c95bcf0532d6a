package main

import (
	"strings"
	"testing"
)

const refusing = `mock_provider "aws" {}

variables {
  a = 1
}

run "one" {
  command = plan
  variables {
    a = 2
  }
  # Says: a must be 1
  expect_failures = [var.a]
}

run "two" {
  command = plan
  # Says: Name it.
  expect_failures = [
    thing.this,
  ]
}
`

func TestReadRefusals_makesATestOfEachRunThatDoesNotExpectToFail(t *testing.T) {
	refusals, err := readRefusals([]byte(refusing))
	if err != nil {
		t.Fatal(err)
	}
	if len(refusals) != 2 || refusals[0].name != "one" || refusals[0].says != "a must be 1" || refusals[1].says != "Name it." {
		t.Fatalf("read %+v", refusals)
	}
	want := "mock_provider \"aws\" {}\nvariables {\n  a = 1\n}\nrun \"one\" {\n  command = plan\n  variables {\n    a = 2\n  }\n  # Says: a must be 1\n  \n}\n"
	if refusals[0].test != want {
		t.Errorf("the test is\n%s\nwant\n%s", refusals[0].test, want)
	}
	for _, r := range refusals {
		if _, err := parse([]byte(r.test), r.name); err != nil || strings.Contains(r.test, "expect_failures") {
			t.Errorf("%s: %v\n%s", r.name, err, r.test)
		}
	}
	if refusals, err := readRefusals(nil); err != nil || len(refusals) != 0 {
		t.Errorf("nothing is %v (%v)", refusals, err)
	}
}

func TestReadRefusals_wantsWordsAndAFailure(t *testing.T) {
	for _, text := range []string{
		"run \"a\" {\n  command = plan\n  # Says: x\n}\n",
		"run \"a\" {\n  expect_failures = [var.a]\n}\n",
		"run \"a\" {\n",
	} {
		if _, err := readRefusals([]byte(text)); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func TestErrorMessages_areTheErrorsOfEachRun(t *testing.T) {
	said, err := errorMessages(`{"type":"version"}
{"type":"diagnostic","@testrun":"one","diagnostic":{"severity":"error","summary":"Invalid value","detail":"a must\nbe 1."}}
{"type":"diagnostic","@testrun":"one","diagnostic":{"severity":"warning","summary":"Old","detail":"x"}}
{"type":"diagnostic","@testrun":"two","diagnostic":{"severity":"error","summary":"Bad","detail":""}}
`)
	if err != nil {
		t.Fatal(err)
	}
	if len(said["one"]) != 1 || said["one"][0] != "Invalid value: a must be 1." || len(said["two"]) != 1 {
		t.Errorf("said %q", said)
	}
	if _, err := errorMessages("Error: not JSON\n"); err == nil {
		t.Error("text was read as JSON")
	}
}

func TestCompare_requiresTheMessageOfEachRun(t *testing.T) {
	refusals := []refusal{{name: "one", says: "a must be 1"}, {name: "two", says: "Name it."}}
	if err := compare(refusals, map[string][]string{"one": {"x", "Invalid: a must be 1."}, "two": {"Name it."}}); err != nil {
		t.Errorf("expected messages are rejected: %v", err)
	}
	for _, messages := range []map[string][]string{
		{"one": {"a must be 1"}},
		{"one": {"a must be 1"}, "two": {"a must be 1"}},
		{},
	} {
		if err := compare(refusals, messages); err == nil || !strings.Contains(err.Error(), "the error of two must contain") {
			t.Errorf("%q passes: %v", messages, err)
		}
	}
}

func TestUncovered_namesRulesWithoutARefusal(t *testing.T) {
	rules := []rule{{"variable a", "a must be 1."}, {"resource thing this", "Name it."}}
	if err := uncovered(rules, []refusal{{says: "must be 1"}, {says: "Name it."}}); err != nil {
		t.Errorf("covered rules are not: %v", err)
	}
	err := uncovered(rules, []refusal{{says: "must be 1"}})
	if err == nil || !strings.Contains(err.Error(), "resource thing this") || strings.Contains(err.Error(), "variable a") {
		t.Errorf("the error is %v", err)
	}
}
