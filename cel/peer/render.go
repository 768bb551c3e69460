package main

import (
	"fmt"
	"math"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/api/resource"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// render writes a value so that two values have one text only if they are the same: 1, 1u and 1.0 differ.
func render(value ref.Val) string {
	switch value := value.(type) {
	case *types.Err: // in an optional or a list, where it fails once it is read
		panic(value)
	case types.Null:
		return "null"
	case types.Bool, types.Int:
		return fmt.Sprint(value)
	case types.Uint:
		return fmt.Sprintf("%du", uint64(value))
	case types.Double:
		if math.IsNaN(float64(value)) {
			return "double:nan"
		}
		return fmt.Sprintf("double:%016x", math.Float64bits(float64(value)))
	case types.String:
		return quote(string(value))
	case types.Bytes:
		return fmt.Sprintf("bytes:%x", []byte(value))
	case types.Timestamp:
		return fmt.Sprintf("timestamp:%d.%09d", value.Unix(), value.Nanosecond())
	case types.Duration:
		return fmt.Sprintf("duration:%d", int64(value.Duration))
	case *types.Optional:
		if !value.HasValue() {
			return "none"
		}
		return "some(" + render(value.GetValue()) + ")"
	case *types.Type:
		return "type:" + value.TypeName()
	case traits.Lister:
		var items []string
		for it := value.Iterator(); it.HasNext() == types.True; {
			items = append(items, render(it.Next()))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case traits.Mapper:
		var entries []string
		for it := value.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			entries = append(entries, render(key)+": "+render(value.Get(key)))
		}
		sort.Strings(entries)
		return "{" + strings.Join(entries, ", ") + "}"
	}
	return value.Type().TypeName() + "(" + library(value) + ")"
}

// library writes a value of a library; of most of them their functions tell enough.
func library(value ref.Val) string {
	switch value := value.(type) {
	case *apiservercel.Quantity:
		return plain(*value.Quantity)
	case apiservercel.Quantity:
		return plain(*value.Quantity)
	case apiservercel.IP:
		return value.Addr.String()
	case apiservercel.CIDR:
		return value.Prefix.String()
	}
	return ""
}

// plain writes a quantity without how it was written.
func plain(quantity resource.Quantity) string {
	quantity = quantity.DeepCopy()
	quantity.Format = resource.DecimalSI
	quantity.Add(*resource.NewQuantity(0, resource.DecimalSI)) // forgets its text
	return quantity.String()
}

func quote(text string) string {
	var quoted strings.Builder
	quoted.WriteByte('"')
	for len(text) > 0 {
		char, width := utf8.DecodeRuneInString(text)
		switch {
		case char == utf8.RuneError && width == 1:
			fmt.Fprintf(&quoted, "\\x%02x", text[0])
		case char >= ' ' && char < 0x7f && char != '"' && char != '\\':
			quoted.WriteRune(char)
		default:
			fmt.Fprintf(&quoted, "\\u{%x}", char)
		}
		text = text[width:]
	}
	quoted.WriteByte('"')
	return quoted.String()
}
