package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLicenceOf(t *testing.T) {
	for name, test := range map[string]struct{ file, text, want string }{
		"Apache":   {"LICENSE", "Apache License\nVersion 2.0", "Apache-2.0"},
		"wrapped":  {"LICENSE.txt", "Permission is hereby granted, free\n   of charge, to any person", "MIT"},
		"BSD":      {"COPYING", "Redistribution and use in source and binary forms, with or without", "BSD"},
		"copyleft": {"LICENSE", "GNU AFFERO GENERAL PUBLIC LICENSE", ""},
		"source":   {"LICENSE", "Business Source License 1.1", ""},
		"missing":  {"README.md", "Apache License", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, test.file), []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := licenceOf(dir)
			if got != test.want || (err == nil) != (test.want != "") {
				t.Errorf("got %q, %v; want %q", got, err, test.want)
			}
		})
	}
}
