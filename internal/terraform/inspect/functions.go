package inspect

import (
	"encoding/base64"
	"maps"
	"math/big"
	"net/netip"
	"regexp"
	"strings"

	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// functions are the functions that conditions are evaluated with. They return what
// those of the tool return, or an unknown value. A condition that calls another
// function is not evaluated.
var functions = func() map[string]function.Function {
	found := maps.Clone(unlimited)
	for name, f := range found {
		// These return what others return.
		if name != "can" && name != "try" {
			found[name] = limited(f)
		}
	}
	return found
}()

// unlimited are the functions, which convert any text to numbers.
var unlimited = map[string]function.Function{
	"abs": stdlib.AbsoluteFunc, "ceil": stdlib.CeilFunc, "floor": stdlib.FloorFunc, "max": stdlib.MaxFunc, "min": stdlib.MinFunc,
	"can": tryfunc.CanFunc, "try": tryfunc.TryFunc,
	"concat": stdlib.ConcatFunc, "contains": stdlib.ContainsFunc, "distinct": stdlib.DistinctFunc, "flatten": stdlib.FlattenFunc,
	"keys": stdlib.KeysFunc, "values": stdlib.ValuesFunc, "lookup": stdlib.LookupFunc, "merge": stdlib.MergeFunc, "sort": stdlib.SortFunc,
	"setintersection": stdlib.SetIntersectionFunc, "setsubtract": stdlib.SetSubtractFunc, "setunion": stdlib.SetUnionFunc,
	"join": stdlib.JoinFunc, "split": stdlib.SplitFunc, "lower": stdlib.LowerFunc, "upper": stdlib.UpperFunc, "trimspace": stdlib.TrimSpaceFunc,
	"trimprefix": stdlib.TrimPrefixFunc, "trimsuffix": stdlib.TrimSuffixFunc, "regex": stdlib.RegexFunc, "regexall": stdlib.RegexAllFunc,
	"jsondecode": jsonDecodeFunc,
	"tobool":     stdlib.MakeToFunc(cty.Bool), "tonumber": stdlib.MakeToFunc(cty.Number), "tostring": stdlib.MakeToFunc(cty.String),
	"tolist": stdlib.MakeToFunc(cty.List(cty.DynamicPseudoType)), "toset": stdlib.MakeToFunc(cty.Set(cty.DynamicPseudoType)),
	"tomap": stdlib.MakeToFunc(cty.Map(cty.DynamicPseudoType)),

	"alltrue": quantifier(false), "anytrue": quantifier(true),
	"startswith": comparison(strings.HasPrefix), "endswith": comparison(strings.HasSuffix), "strcontains": comparison(strings.Contains),
	"length": lengthFunc, "cidrhost": cidrHostFunc, "base64decode": base64DecodeFunc,
}

// quantifier returns anytrue if decisive is true, and alltrue if it is false.
func quantifier(decisive bool) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "list", Type: cty.List(cty.Bool)}},
		Type:   function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			result := cty.BoolVal(!decisive)
			for it := args[0].ElementIterator(); it.Next(); {
				_, element := it.Element()
				switch {
				case !element.IsKnown():
					result = cty.UnknownVal(cty.Bool)
				case element.IsNull():
					// alltrue regards null as false, anytrue ignores it.
					if !decisive {
						return cty.False, nil
					}
				case element.True() == decisive:
					return cty.BoolVal(decisive), nil
				}
			}
			return result, nil
		},
	})
}

// comparison returns a function that compares two strings.
func comparison(compare func(text, other string) bool) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "str", Type: cty.String}, {Name: "other", Type: cty.String}},
		Type:   function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return cty.BoolVal(compare(args[0].AsString(), args[1].AsString())), nil
		},
	})
}

// lengthFunc returns the number of elements, attributes or characters.
var lengthFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType, AllowDynamicType: true, AllowUnknown: true}},
	Type: func(args []cty.Value) (cty.Type, error) {
		t := args[0].Type()
		if t == cty.String || t == cty.DynamicPseudoType || t.IsTupleType() || t.IsObjectType() || t.IsCollectionType() {
			return cty.Number, nil
		}
		return cty.Number, function.NewArgErrorf(0, "argument must be a string, a collection type, or a structural type")
	},
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		value := args[0]
		switch t := value.Type(); {
		case t.IsTupleType():
			return cty.NumberIntVal(int64(t.Length())), nil
		case t.IsObjectType():
			return cty.NumberIntVal(int64(len(t.AttributeTypes()))), nil
		case t == cty.DynamicPseudoType || !value.IsKnown():
			return cty.UnknownVal(cty.Number), nil
		case t == cty.String:
			return stdlib.Strlen(value)
		}
		return value.Length(), nil
	},
})

// jsonDecodeFunc decodes JSON that is not nested deeply, for which the one of the tool has no
// limit. Other JSON is unknown.
var jsonDecodeFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "str", Type: cty.String}},
	Type: func(args []cty.Value) (cty.Type, error) {
		if args[0].IsKnown() && isTooDeepData([]byte(args[0].AsString())) {
			return cty.DynamicPseudoType, nil
		}
		return stdlib.JSONDecodeFunc.ReturnTypeForValues(args)
	},
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		if isTooDeepData([]byte(args[0].AsString())) {
			return cty.DynamicVal, nil
		}
		return stdlib.JSONDecodeFunc.Call(args)
	},
})

// leadingZero matches addresses that the tool accepts and Go does not.
var leadingZero = regexp.MustCompile(`(^|\.)0[0-9]`)

// cidrHostFunc returns an address in a network.
var cidrHostFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "prefix", Type: cty.String}, {Name: "hostnum", Type: cty.Number}},
	Type:   function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		text := args[0].AsString()
		number, accuracy := args[1].AsBigFloat().Int(nil)
		if leadingZero.MatchString(text) || accuracy != big.Exact || number.Sign() < 0 {
			return cty.UnknownVal(cty.String), nil
		}
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return cty.UnknownVal(cty.String), function.NewArgErrorf(0, "invalid CIDR expression")
		}
		base := network.Masked().Addr()
		if number.BitLen() > base.BitLen()-network.Bits() {
			return cty.UnknownVal(cty.String), function.NewArgErrorf(1, "the network has no such host")
		}
		bytes := base.AsSlice()
		sum := new(big.Int).Add(new(big.Int).SetBytes(bytes), number)
		host, _ := netip.AddrFromSlice(sum.FillBytes(bytes))
		return cty.StringVal(host.String()), nil
	},
})

// base64DecodeFunc decodes a string.
var base64DecodeFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "str", Type: cty.String}},
	Type:   function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		decoded, err := base64.StdEncoding.DecodeString(args[0].AsString())
		if err != nil {
			return cty.UnknownVal(cty.String), function.NewArgErrorf(0, "invalid base64")
		}
		return cty.StringVal(string(decoded)), nil
	},
})
