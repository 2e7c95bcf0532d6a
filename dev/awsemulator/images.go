package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
)

// eksImages matches the parameters with the IDs of EKS's images, and their architecture.
var eksImages = regexp.MustCompile(`^/aws/service/(?:eks/optimized-ami/1\.\d+/amazon-linux-2023|bottlerocket/aws-k8s-1\.\d+)/(x86_64|arm64)/.+/image_id$`)

// eksReleases matches the parameters with the newest release of EKS's images, and the version
// of Kubernetes of those of Amazon Linux.
var eksReleases = regexp.MustCompile(`^/aws/service/(?:eks/optimized-ami/(1\.\d+)/amazon-linux-2023/(?:x86_64|arm64)/[a-z]+/recommended/release_version|bottlerocket/aws-k8s-1\.\d+(?:-[a-z]+)?/(?:x86_64|arm64)/latest/image_version)$`)

// linuxImage is the parameter with the ID of Amazon Linux's image for an architecture.
const linuxImage = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-"

// nameImages returns the images of Amazon Linux for EKS's, which moto does not have.
func nameImages(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Amz-Target") != "AmazonSSM.GetParameter" {
			next.ServeHTTP(w, r)
			return
		}
		content, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body := values{}
		if err := json.Unmarshal(content, &body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if match := eksReleases.FindStringSubmatch(text(body, "Name")); match != nil {
			amiType := "BOTTLEROCKET"
			if match[1] != "" {
				amiType = "AL2023"
			}
			w.Header().Set("Content-Type", "application/x-amz-json-1.1")
			_, _ = fmt.Fprintf(w, `{"Parameter":{"Name":%q,"Type":"String","Value":%q,"Version":1}}`, text(body, "Name"), releaseOf(amiType, match[1]))
			return
		}
		if match := eksImages.FindStringSubmatch(text(body, "Name")); match != nil {
			body["Name"] = linuxImage + match[1]
		}
		changed, err := json.Marshal(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(changed)), int64(len(changed))
		next.ServeHTTP(w, r)
	})
}
