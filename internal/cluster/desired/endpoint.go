package desired

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// httpsPort is the port of an address without one.
const httpsPort = 443

// ParseEndpoint parses an address of an API server, with or without scheme and port.
func ParseEndpoint(address string) (clusterv1.APIEndpoint, error) {
	if !strings.Contains(address, "://") {
		address = "https://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return clusterv1.APIEndpoint{}, fmt.Errorf("%q is not an address such as https://api.example.com:6443", address)
	}
	endpoint := clusterv1.APIEndpoint{Host: u.Hostname(), Port: httpsPort}
	if text := u.Port(); text != "" {
		port, err := strconv.ParseInt(text, 10, 32)
		if err != nil || port < 1 || port > 65535 {
			return clusterv1.APIEndpoint{}, fmt.Errorf("%q has an invalid port", address)
		}
		endpoint.Port = int32(port)
	}
	return endpoint, nil
}
