package command

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestShowJSON(t *testing.T) {
	const state = `{"format_version":"1.0","values":{"root_module":{
		"resources":[{"address":"aws_vpc.a","mode":"managed","type":"aws_vpc","name":"a","provider_name":"p","schema_version":1,
			"values":{"id":"vpc-1","number":12345678901234567890,"key":"k3y","tags":{"a":"1","b":"s3cret"},"list":["x",{"y":"s3cret","z":2}],"none":null},
			"sensitive_values":{"key":true,"tags":{"b":true},"list":[false,{"y":true}],"none":true,"other":true}}],
		"child_modules":[{"address":"module.m","resources":[{"address":"module.m.aws_vpc.b[\"x\"]","mode":"managed","type":"aws_vpc","name":"b","index":"x","provider_name":"p",
			"values":{"id":"vpc-2"},"sensitive_values":{}}]}]}}}`
	for name, test := range map[string]struct {
		address   string
		sensitive bool
		want      string
	}{
		"masked":      {"aws_vpc.a", false, `{"address":"aws_vpc.a","mode":"managed","type":"aws_vpc","name":"a","provider_name":"p","schema_version":1,"values":{"id":"vpc-1","number":12345678901234567890,"key":"(sensitive value)","tags":{"a":"1","b":"(sensitive value)"},"list":["x",{"y":"(sensitive value)","z":2}],"none":null}}`},
		"complete":    {"aws_vpc.a", true, `{"address":"aws_vpc.a","mode":"managed","type":"aws_vpc","name":"a","provider_name":"p","schema_version":1,"values":{"id":"vpc-1","number":12345678901234567890,"key":"k3y","tags":{"a":"1","b":"s3cret"},"list":["x",{"y":"s3cret","z":2}],"none":null}}`},
		"in a module": {`module.m.aws_vpc.b["x"]`, false, `{"address":"module.m.aws_vpc.b[\"x\"]","mode":"managed","type":"aws_vpc","name":"b","index":"x","provider_name":"p","values":{"id":"vpc-2"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := showJSON([]byte(state), test.address, test.sensitive)
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			NewWithT(t).Expect(out).To(MatchJSON(test.want))
		})
	}
	_, err := showJSON([]byte(state), "aws_vpc.c", false)
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("no resource in the state has the address aws_vpc.c")))
	_, err = showJSON([]byte("s3cret"), "aws_vpc.c", false)
	NewWithT(t).Expect(err).To(MatchError(Not(ContainSubstring("s3cret"))))
	_, err = showJSON([]byte(`{"format_version":"1.0"}`), "aws_vpc.c", false)
	NewWithT(t).Expect(err).To(HaveOccurred(), "a state without resources")
}
