package command

import (
	"encoding/json"
	"strings"

	"github.com/appthrust/capt/internal/terraform"
)

// registries are the default registries of the products. The addresses of a state's
// providers begin with one of them.
var registries = map[string]string{
	"registry.opentofu.org": terraform.ProductOpenTofu,
	"registry.terraform.io": terraform.ProductTerraform,
}

// WriterOf returns the tool that wrote a state, as far as that is known: a state has the
// version, and only the addresses of its providers tell the product.
func WriterOf(state []byte) terraform.Tool {
	var file struct {
		Version   string `json:"terraform_version"`
		Encrypted string `json:"encrypted_data"`
		Resources []struct {
			Provider string `json:"provider"`
		} `json:"resources"`
	}
	if json.Unmarshal(state, &file) != nil {
		return terraform.Tool{}
	}
	if file.Encrypted != "" {
		// Terraform does not encrypt states.
		return terraform.Tool{Product: terraform.ProductOpenTofu}
	}
	tool := terraform.Tool{Version: file.Version}
	for _, resource := range file.Resources {
		for host, product := range registries {
			if strings.Contains(resource.Provider, `["`+host+"/") {
				tool.Product = product
				return tool
			}
		}
	}
	return tool
}
