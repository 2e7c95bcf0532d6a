package main

import "testing"

func TestEKS_rejectsAnImageOfAnotherArchitecture(t *testing.T) {
	r := newCluster(t)
	r.answers = map[string]string{"DescribeInstanceTypes": `<R><instanceTypeSet><item><instanceType>m7g.large</instanceType><processorInfo><supportedArchitectures>` +
		`<item>arm64</item></supportedArchitectures></processorInfo></item></instanceTypeSet></R>`}
	const group = `{"nodegroupName":"a","instanceTypes":["m7g.large"]`
	r.must(400, "[m7g.large] is not a valid instance type for requested amiType AL2023_x86_64_STANDARD", "POST", "/clusters/demo/node-groups", group+`}`)
	r.must(200, "CREATING", "POST", "/clusters/demo/node-groups", group+`,"amiType":"AL2023_ARM_64_STANDARD"}`)
}
