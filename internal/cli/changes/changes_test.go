package changes_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/cli/changes"
	"github.com/appthrust/capt/internal/client/text"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/change"
)

// plan is the output of show -json for changes of all kinds.
const plan = `{
"resource_drift":[{"address":"aws_vpc.old","mode":"managed","type":"aws_vpc","name":"old","change":{"actions":["update"],"before":{"id":"vpc-0","dns":true},"after":{"id":"vpc-0","dns":false}}}],
"resource_changes":[
{"address":"aws_subnet.a[\"x\"]","mode":"managed","type":"aws_subnet","name":"a","change":{"actions":["create"],"before":null,"after":{"cidr":"10.0.0.0/24","tags":{"Name":"a","kubernetes.io/role/elb":"1"},"zones":["a","b"],"empty":null},"after_unknown":{"id":true}}},
{"address":"aws_vpc.this","mode":"managed","type":"aws_vpc","name":"this","action_reason":"replace_because_cannot_update","change":{"actions":["delete","create"],"before":{"cidr_block":"10.0.0.0/16","id":"vpc-1","arn":"arn:1"},"after":{"cidr_block":"10.1.0.0/16","arn":"arn:1"},"after_unknown":{"id":true},"replace_paths":[["cidr_block"]]}},
{"address":"aws_security_group.web","mode":"managed","type":"aws_security_group","name":"web","change":{"actions":["update"],"before":{"id":"sg-1","ingress":[{"port":80,"cidrs":["10.0.0.0/8"]},{"port":22,"cidrs":["10.0.0.0/8"]}],"name":"web"},"after":{"id":"sg-1","ingress":[{"port":80,"cidrs":["0.0.0.0/0"]}],"name":"web"}}},
{"address":"aws_iam_policy.p","mode":"managed","type":"aws_iam_policy","name":"p","change":{"actions":["update"],"before":{"policy":"{\"Statement\":[{\"Effect\":\"Allow\",\"Action\":[\"s3:Get*\"]}]}"},"after":{"policy":"{\"Statement\":[{\"Effect\":\"Allow\",\"Action\":[\"s3:*\"]}]}"}}},
{"address":"aws_db_instance.db","mode":"managed","type":"aws_db_instance","name":"db","change":{"actions":["update"],"before":{"password":"s3cret","size":10},"after":{"password":"0ther","size":20},"before_sensitive":{"password":true},"after_sensitive":{"password":true}}},
{"address":"x_file.f","mode":"managed","type":"x_file","name":"f","change":{"actions":["update"],"before":{"content":"one\ntwo\nthree\n"},"after":{"content":"one\n2\nthree\n"}}},
{"address":"aws_route.old","mode":"managed","type":"aws_route","name":"old","action_reason":"delete_because_no_resource_config","change":{"actions":["delete"],"before":{"id":"r-1"},"after":null}},
{"address":"aws_eip.new","previous_address":"aws_eip.old","mode":"managed","type":"aws_eip","name":"new","change":{"actions":["no-op"],"before":{"id":"e"},"after":{"id":"e"}}},
{"address":"aws_s3_bucket.b","mode":"managed","type":"aws_s3_bucket","name":"b","change":{"actions":["no-op"],"before":{"id":"b"},"after":{"id":"b"},"importing":{"id":"bucket-1"}}}
],
"output_changes":{"vpc_id":{"actions":["update"],"before":"vpc-1","after_unknown":true},"token":{"actions":["create"],"before":null,"after":"s3cret","after_sensitive":true}}}`

const want = `Changes outside the module since the last run:

  # aws_vpc.old has changed outside the module
  ~ resource "aws_vpc" "old" {
      ~ dns = true -> false
        # (1 unchanged attribute hidden)
    }

The plan makes these changes:

  # aws_subnet.a["x"] will be created
  + resource "aws_subnet" "a" {
      + cidr  = "10.0.0.0/24"
      + id    = (known after apply)
      + tags  = {
          + Name                     = "a"
          + "kubernetes.io/role/elb" = "1"
        }
      + zones = [
          + "a",
          + "b",
        ]
    }

  # aws_vpc.this must be replaced, because it cannot be updated in place (protected)
-/+ resource "aws_vpc" "this" {
      ~ cidr_block = "10.0.0.0/16" -> "10.1.0.0/16" # forces replacement
      ~ id         = "vpc-1" -> (known after apply)
        # (1 unchanged attribute hidden)
    }

  # aws_security_group.web will be updated in-place
  ~ resource "aws_security_group" "web" {
      ~ ingress = [
          ~ {
              ~ cidrs = [
                  - "10.0.0.0/8",
                  + "0.0.0.0/0",
                ]
            },
          - {
              - cidrs = [
                  - "10.0.0.0/8",
                ]
              - port  = 22 -> null
            },
        ]
        # (2 unchanged attributes hidden)
    }

  # aws_iam_policy.p will be updated in-place
  ~ resource "aws_iam_policy" "p" {
      ~ policy = jsonencode({
          ~ Statement = [
              ~ {
                  ~ Action = [
                      - "s3:Get*",
                      + "s3:*",
                    ]
                },
            ]
        })
    }

  # aws_db_instance.db will be updated in-place
  ~ resource "aws_db_instance" "db" {
      ~ password = (sensitive value)
      ~ size     = 10 -> 20
    }

  # x_file.f will be updated in-place
  ~ resource "x_file" "f" {
      ~ content = <<-EOT
            one
          - two
          + 2
            three

        EOT
    }

  # aws_route.old will be destroyed, because it is no longer in the module
  - resource "aws_route" "old" {
      - id = "r-1" -> null
    }

  # aws_eip.new has moved (moved from aws_eip.old)
  → resource "aws_eip" "new" {
        # (1 unchanged attribute hidden)
    }

  # aws_s3_bucket.b will be imported
  # (import ID "bucket-1")
  & resource "aws_s3_bucket" "b" {
        # (1 unchanged attribute hidden)
    }

Changes of outputs:

  ~ vpc_id = "vpc-1" -> (known after apply)

  + token = (sensitive value)

`

func read(t *testing.T, plan string, emit func(change.Entry)) {
	t.Helper()
	// Entries are stored as JSON.
	err := change.Read(strings.NewReader(plan), func(s string) string { return s }, func(e change.Entry) error {
		data, err := json.Marshal(e)
		if err != nil {
			return err
		}
		var stored change.Entry
		if err := json.Unmarshal(data, &stored); err != nil {
			return err
		}
		emit(stored)
		return nil
	})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
}

func TestPrint_usesTheFormatOfTerraform(t *testing.T) {
	g := NewWithT(t)
	var out bytes.Buffer
	printer := &changes.Printer{Out: &out, Protected: []string{"aws_vpc.this"}}
	read(t, plan, func(e change.Entry) { g.Expect(printer.Print(e)).To(Succeed()) })
	g.Expect(printer.Print(change.Entry{Omitted: 2})).To(Succeed())
	g.Expect(out.String()).To(Equal(want + "    # 2 changes not shown, because the plan is too large\n\n"))
	g.Expect(out.String()).NotTo(ContainSubstring("s3cret"))
}

func TestPrint_paintsSymbols(t *testing.T) {
	g := NewWithT(t)
	var out bytes.Buffer
	printer := &changes.Printer{Out: text.NewPrintable(&out), Style: text.Style{Colour: true}}
	read(t, plan, func(e change.Entry) { g.Expect(printer.Print(e)).To(Succeed()) })
	g.Expect(out.String()).To(ContainSubstring("\x1b[31m-/+\x1b[0m resource"))
	g.Expect(out.String()).To(ContainSubstring("\x1b[31m # forces replacement\x1b[0m\n"))
}

func TestPrint_removesControlCharacters(t *testing.T) {
	g := NewWithT(t)
	hostile := `{"resource_changes":[{"address":"a.b[\"\u001b]52;c;x\u0007\"]","type":"a","name":"b","change":{"actions":["create"],"after":{"x":"\u009b31m\u202e","y":"line\n\u001b[2Jgone"}}}]}`
	var out bytes.Buffer
	printer := &changes.Printer{Out: &out}
	document := &changes.Markdown{Limit: 60_000}
	read(t, hostile, func(e change.Entry) {
		g.Expect(printer.Print(e)).To(Succeed())
		document.Add(e)
	})
	for _, printed := range []string{out.String(), document.String()} {
		g.Expect(printed).To(ContainSubstring("gone"))
		for _, bad := range []string{"\x1b", "\x07", "\u009b", "\u202e"} {
			g.Expect(printed).NotTo(ContainSubstring(bad))
		}
	}
}

func TestMarkdown_isADiffThatCannotBeLeft(t *testing.T) {
	g := NewWithT(t)
	document := &changes.Markdown{Limit: 60_000}
	read(t, plan, document.Add)
	g.Expect(document.String()).To(HavePrefix("```diff\nChanges outside the module"))
	g.Expect(document.String()).To(ContainSubstring("\n!      ~ cidr_block = \"10.0.0.0/16\" -> \"10.1.0.0/16\" # forces replacement\n"))
	g.Expect(document.String()).To(ContainSubstring("\n+        cidr  = \"10.0.0.0/24\"\n"))

	quoted := &changes.Markdown{Limit: 60_000}
	read(t, "{\"resource_changes\":[{\"address\":\"a.b\",\"type\":\"a\",\"name\":\"b\",\"change\":{\"actions\":[\"create\"],\"after\":{\"x\":\"1\\n```\\n# hello\\n\"}}}]}", quoted.Add)
	g.Expect(quoted.String()).To(HavePrefix("````diff\n"))
	g.Expect(quoted.String()).To(HaveSuffix("\n````\n"))
}

func TestMarkdown_fitsIntoAComment(t *testing.T) {
	g := NewWithT(t)
	document := &changes.Markdown{Limit: 60_000}
	for range 3000 {
		read(t, `{"resource_changes":[{"address":"a.b","type":"a","name":"b","change":{"actions":["create"],"after":{"x":"`+strings.Repeat("x", 100)+`"}}}]}`, document.Add)
	}
	g.Expect(len(document.String())).To(BeNumerically("<", 65_000))
	g.Expect(document.String()).To(MatchRegexp(`\n\d{4} more changes not shown\.\n$`))
}

func TestPrinter_countsAttributesThatAreNotStored(t *testing.T) {
	g := NewWithT(t)
	attributes := []change.Attribute{{Path: change.Path{{Key: "name"}}, Action: terraform.ActionCreate}}
	var out bytes.Buffer
	printer := &changes.Printer{Out: &out}
	for _, entry := range []change.Entry{
		{Resource: &change.Resource{Address: "a.b", Type: "a", Name: "b", Action: terraform.ActionCreate, Attributes: attributes, Omitted: 2}},
		{Output: &change.Output{Name: "id", Action: terraform.ActionCreate, Attributes: attributes}},
	} {
		g.Expect(printer.Print(entry.WithoutAttributes())).To(Succeed())
		g.Expect(entry.Resource == nil || len(entry.Resource.Attributes) == 1).To(BeTrue(), "the entry is unchanged")
	}
	g.Expect(out.String()).To(And(
		ContainSubstring("# a.b will be created\n  + resource \"a\" \"b\" {\n        # (3 more changed attributes)\n    }\n"),
		ContainSubstring("  + id = {\n        # (1 more changed attribute)\n    }\n"),
	))
}
