// Writes apiserver/data/protobuf_fields.txt: for each message that a typed client may send or be sent, its field numbers.
//
// Run it in this folder with the Kubernetes modules of the version that the built-in kinds are taken from:
//
//	go run . > ../../apiserver/data/protobuf_fields.txt
//
// The file has one line per root kind, `apiVersion<tab>kind<tab>message`, then one line per message, its name and its
// fields, each `number:json name:type:flags`. Types: s string, b bytes (base64 in JSON), i signed integer, B boolean,
// d double, f float, T time, M micro time, D duration, Q quantity, I int or string, J raw JSON, S list-of-strings message, F FieldsV1,
// A/L/N the three "schema or array, boolean, strings" unions of CustomResourceDefinition, m<message>. Flags: r repeated, p map with string keys, o left out of JSON when zero (omitempty without pointer),
// z written when zero.
package main

import (
	"bufio"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

const crd = "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1."

var special = map[string]string{
	"k8s.io/apimachinery/pkg/apis/meta/v1.Time":       "T",
	"k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime":  "M",
	"k8s.io/apimachinery/pkg/apis/meta/v1.Duration":   "D",
	"k8s.io/apimachinery/pkg/apis/meta/v1.FieldsV1":   "F",
	"k8s.io/apimachinery/pkg/api/resource.Quantity":   "Q",
	"k8s.io/apimachinery/pkg/util/intstr.IntOrString": "I",
	"k8s.io/apimachinery/pkg/runtime.RawExtension":    "J",
	crd + "JSON":                         "J",
	crd + "JSONSchemaPropsOrArray":       "A",
	crd + "JSONSchemaPropsOrBool":        "L",
	crd + "JSONSchemaPropsOrStringArray": "N",
}

var messages = map[string]string{}
var queue []reflect.Type

func id(t reflect.Type) string { return t.PkgPath() + "." + t.Name() }

func short(t reflect.Type) string {
	parts := strings.Split(t.PkgPath(), "/")
	return strings.Join(parts[max(0, len(parts)-2):], ".") + "." + t.Name()
}

func enqueue(t reflect.Type) {
	if _, done := messages[short(t)]; !done {
		messages[short(t)] = ""
		queue = append(queue, t)
	}
}

// scalar names the type of one value, not repeated.
func scalar(t reflect.Type) string {
	if name, ok := special[id(t)]; ok {
		return name
	}
	switch t.Kind() {
	case reflect.String:
		return "s"
	case reflect.Bool:
		return "B"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint8, reflect.Uint32, reflect.Uint64, reflect.Uint16:
		return "i"
	case reflect.Float64:
		return "d"
	case reflect.Float32:
		return "f"
	case reflect.Struct:
		enqueue(t)
		return "m" + short(t)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "b"
		}
		if t.Elem().Kind() == reflect.String && t.Name() != "" {
			return "S"
		}
	case reflect.Pointer:
		return scalar(t.Elem())
	}
	fmt.Fprintln(os.Stderr, "no type for", t)
	os.Exit(1)
	return ""
}

func field(owner reflect.Type, f reflect.StructField) string {
	number := ""
	for i, part := range strings.Split(f.Tag.Get("protobuf"), ",") {
		if i == 1 {
			number = part
		}
	}
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "-" || number == "" {
		return ""
	}
	inline := strings.Contains(options, "inline") || (f.Anonymous && name == "")
	t, flags := f.Type, ""
	pointer := t.Kind() == reflect.Pointer
	if pointer {
		t = t.Elem()
	}
	kind := ""
	if _, isSpecial := special[id(t)]; !isSpecial && t.Kind() == reflect.Map {
		kind, flags = scalar(t.Elem()), "p"
	} else if t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8 && !(t.Name() != "" && t.Elem().Kind() == reflect.String) {
		kind, flags = scalar(t.Elem()), "r"
	} else {
		kind = scalar(t)
		if !pointer {
			if strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero") {
				flags = "o"
			} else {
				flags = "z"
			}
		}
	}
	if inline {
		name = ""
		flags += "l"
	}
	return fmt.Sprintf("%s:%s:%s:%s", number, name, kind, flags)
}

func main() {
	s := runtime.NewScheme()
	if err := scheme.AddToScheme(s); err != nil {
		panic(err)
	}
	if err := apiextensions.AddToScheme(s); err != nil {
		panic(err)
	}
	var roots []string
	for gvk, t := range s.AllKnownTypes() {
		if gvk.Version == runtime.APIVersionInternal || strings.HasSuffix(gvk.Kind, "List") ||
			strings.Contains(gvk.Version, "alpha") || strings.Contains(gvk.Version, "beta") {
			continue
		}
		if t.PkgPath() == reflect.TypeOf(metav1.ObjectMeta{}).PkgPath() && (gvk.Kind != "DeleteOptions" || gvk.Group != "") {
			continue
		}
		enqueue(t)
		roots = append(roots, fmt.Sprintf("%s\t%s\t%s", gvk.GroupVersion(), gvk.Kind, short(t)))
	}
	// What is of no group, or of none that a client writes.
	for version, objects := range map[string][]any{
		"v1":                    {metav1.Status{}, metav1.APIVersions{}, metav1.APIGroup{}, metav1.APIGroupList{}, metav1.APIResourceList{}},
		"meta.k8s.io/v1":        {metav1.PartialObjectMetadata{}},
		"apidiscovery.k8s.io/v2": {apidiscovery.APIGroupDiscoveryList{}},
	} {
		for _, object := range objects {
			t := reflect.TypeOf(object)
			enqueue(t)
			roots = append(roots, fmt.Sprintf("%s\t%s\t%s", version, t.Name(), short(t)))
		}
	}
	sort.Strings(roots)
	for len(queue) > 0 {
		t := queue[0]
		queue = queue[1:]
		var fields []string
		for i := 0; i < t.NumField(); i++ {
			if text := field(t, t.Field(i)); text != "" {
				fields = append(fields, text)
			}
		}
		messages[short(t)] = strings.Join(fields, " ")
	}
	names := make([]string, 0, len(messages))
	for name := range messages {
		names = append(names, name)
	}
	sort.Strings(names)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for _, root := range roots {
		fmt.Fprintln(out, root)
	}
	fmt.Fprintln(out)
	for _, name := range names {
		fmt.Fprintf(out, "%s %s\n", name, messages[name])
	}
}
