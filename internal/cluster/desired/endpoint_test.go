package desired

import (
	"testing"

	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func TestParseEndpoint(t *testing.T) {
	tests := map[string]clusterv1.APIEndpoint{
		"https://ABC.gr7.us-west-2.eks.amazonaws.com": {Host: "ABC.gr7.us-west-2.eks.amazonaws.com", Port: 443},
		"https://127.0.0.1:6443":                      {Host: "127.0.0.1", Port: 6443},
		"api.example.com":                             {Host: "api.example.com", Port: 443},
		"api.example.com:8443":                        {Host: "api.example.com", Port: 8443},
		"https://[2001:db8::1]:6443":                  {Host: "2001:db8::1", Port: 6443},
		"https://api.example.com/prefix":              {Host: "api.example.com", Port: 443},
	}
	for text, want := range tests {
		got, err := ParseEndpoint(text)
		NewWithT(t).Expect(err).NotTo(HaveOccurred(), text)
		NewWithT(t).Expect(got).To(Equal(want), text)
	}
	for _, text := range []string{"https://", "https://:443", "api.example.com:0", "api.example.com:99999", "http://[::1"} {
		NewWithT(t).Expect(ParseEndpoint(text)).Error().To(HaveOccurred(), text)
	}
}
