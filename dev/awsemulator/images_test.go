package main

import "testing"

func TestImages_areThoseOfTheArchitecture(t *testing.T) {
	for name, want := range map[string]string{
		"/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/arm64/standard/recommended/image_id":  "arm64",
		"/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/recommended/image_id": "x86_64",
		"/aws/service/bottlerocket/aws-k8s-1.33/arm64/latest/image_id":                               "arm64",
		"/aws/service/eks/optimized-ami/1.33/amazon-linux-2/recommended/image_id":                    "",
	} {
		got := ""
		if match := eksImages.FindStringSubmatch(name); match != nil {
			got = match[1]
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
