package main

import (
	"slices"
	"testing"
)

// EKS neither chooses nor names the release of an image of the user.
func TestEKS_nodeGroupWithAnImageOfItsLaunchTemplate(t *testing.T) {
	r := newCluster(t)
	image := func(id string) {
		r.answers = map[string]string{
			"DescribeLaunchTemplates": `<R><launchTemplates><item><launchTemplateName>demo</launchTemplateName></item></launchTemplates></R>`,
			"DescribeLaunchTemplateVersions": `<R><launchTemplateVersionSet><item><launchTemplateData><imageId>` + id + `</imageId></launchTemplateData></item>` +
				`</launchTemplateVersionSet></R>`,
			"DescribeImages": `<R><imagesSet><item><imageId>` + id + `</imageId><architecture>arm64</architecture></item></imagesSet></R>`,
			"DescribeInstanceTypes": `<R><instanceTypeSet><item><instanceType>m7g.large</instanceType><processorInfo><supportedArchitectures>` +
				`<item>arm64</item></supportedArchitectures></processorInfo></item></instanceTypeSet></R>`,
		}
	}
	image("ami-1")
	const group = `{"nodegroupName":"a","subnets":["subnet-1"],"instanceTypes":["m7g.large"],"launchTemplate":{"id":"lt-1","version":"1"},"scalingConfig":{"desiredSize":1}`
	for field, value := range map[string]string{"amiType": "AL2023_ARM_64_STANDARD", "version": "1.32", "releaseVersion": "1.32.0-20260101"} {
		r.must(400, field, "POST", "/clusters/demo/node-groups", group+`,"`+field+`":"`+value+`"}`)
	}
	r.must(200, `"amiType":"CUSTOM"`, "POST", "/clusters/demo/node-groups", group+`}`)
	if found := r.calls("RunInstances", "ImageId"); !slices.Equal(found, []string{"ami-1"}) {
		t.Fatalf("nodes have the images %v", found)
	}
	r.settle()
	r.must(200, `"releaseVersion":"ami-1"`, "GET", "/clusters/demo/node-groups/a", "")
	r.must(200, `"version":"1.32"`, "GET", "/clusters/demo/node-groups/a", "")

	r.must(200, "InProgress", "POST", "/clusters/demo/updates", `{"version":"1.33"}`)
	r.settle()
	image("ami-2")
	r.must(400, "version", "POST", "/clusters/demo/node-groups/a/update-version", `{"version":"1.33","launchTemplate":{"id":"lt-1","version":"2"}}`)
	r.must(200, "InProgress", "POST", "/clusters/demo/node-groups/a/update-version", `{"launchTemplate":{"id":"lt-1","version":"2"}}`)
	r.settle()
	r.must(200, `"releaseVersion":"ami-2"`, "GET", "/clusters/demo/node-groups/a", "")
	r.must(200, `"version":"1.33"`, "GET", "/clusters/demo/node-groups/a", "")
}

func TestEKS_rejectsAnImageThatDoesNotExist(t *testing.T) {
	r := newCluster(t)
	r.answers = map[string]string{
		"DescribeLaunchTemplates":        `<R><launchTemplates><item><launchTemplateName>demo</launchTemplateName></item></launchTemplates></R>`,
		"DescribeLaunchTemplateVersions": `<R><launchTemplateVersionSet><item><launchTemplateData><imageId>ami-1</imageId></launchTemplateData></item></launchTemplateVersionSet></R>`,
	}
	r.must(400, "ami-1 does not exist", "POST", "/clusters/demo/node-groups", `{"nodegroupName":"a","launchTemplate":{"id":"lt-1","version":"1"}}`)
}

func TestEKS_rejectsAnOwnImageOfAnotherArchitecture(t *testing.T) {
	r := newCluster(t)
	r.answers = map[string]string{
		"DescribeLaunchTemplates":        `<R><launchTemplates><item><launchTemplateName>demo</launchTemplateName></item></launchTemplates></R>`,
		"DescribeLaunchTemplateVersions": `<R><launchTemplateVersionSet><item><launchTemplateData><imageId>ami-1</imageId></launchTemplateData></item></launchTemplateVersionSet></R>`,
		"DescribeImages":                 `<R><imagesSet><item><imageId>ami-1</imageId><architecture>x86_64</architecture></item></imagesSet></R>`,
		"DescribeInstanceTypes": `<R><instanceTypeSet><item><instanceType>m7g.large</instanceType><processorInfo><supportedArchitectures>` +
			`<item>arm64</item></supportedArchitectures></processorInfo></item></instanceTypeSet></R>`,
	}
	r.must(400, "[m7g.large] is not a valid instance type for requested amiType CUSTOM", "POST", "/clusters/demo/node-groups",
		`{"nodegroupName":"a","instanceTypes":["m7g.large"],"launchTemplate":{"id":"lt-1","version":"1"}}`)
}
