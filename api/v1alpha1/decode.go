package v1alpha1

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Load reads, decodes and validates a manifest file. The error has one line per mistake, each with the
// file's name and the path of the field.
func Load(path string) (*GeoRegisterCluster, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	cluster, err := Decode(data)
	if err != nil {
		return nil, errors.New(path + ": " + strings.ReplaceAll(err.Error(), "\n", "\n"+path+": "))
	}
	return cluster, nil
}

// Decode decodes and validates one manifest, in YAML or JSON. Unknown and repeated fields are mistakes. The
// error joins one error per mistake, each naming the path of its field.
func Decode(data []byte) (*GeoRegisterCluster, error) {
	document, err := single(data)
	if err != nil {
		return nil, err
	}
	asJSON, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return nil, fmt.Errorf("not valid YAML: %w", err)
	}
	cluster := &GeoRegisterCluster{}
	mistakes, err := kjson.UnmarshalStrict(asJSON, cluster)
	if err != nil {
		return nil, readable(err, asJSON)
	}
	if len(mistakes) > 0 {
		return nil, errors.Join(hinted(mistakes)...)
	}
	if invalid := cluster.Validate(); len(invalid) > 0 {
		var each []error
		for _, e := range invalid {
			each = append(each, e)
		}
		return nil, errors.Join(each...)
	}
	return cluster, nil
}

// single returns the only document of a file; a second one would otherwise be dropped in silence.
func single(data []byte) ([]byte, error) {
	var found []byte
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("split into documents: %w", err)
		}
		if blank(document) {
			continue
		}
		if found != nil {
			return nil, errors.New("more than one document; keep one GeoRegisterCluster per file")
		}
		found = document
	}
	if found == nil {
		return nil, errors.New("empty manifest; start from one of config/samples")
	}
	return found, nil
}

// blank reports whether a document has nothing but comments and separators.
func blank(document []byte) bool {
	for line := range strings.Lines(string(document)) {
		line = strings.TrimSpace(line)
		if line != "" && line != "---" && !strings.HasPrefix(line, "#") {
			return false
		}
	}
	return true
}

// hinted adds to each unknown field of the spec the places where a field of its name is known.
func hinted(mistakes []error) []error {
	var all []error
	for _, mistake := range mistakes {
		var at kjson.FieldError
		if errors.As(mistake, &at) && strings.HasPrefix(at.FieldPath(), "spec.") {
			name := at.FieldPath()[strings.LastIndex(at.FieldPath(), ".")+1:]
			if known := places(reflect.TypeFor[GeoRegisterClusterSpec](), "spec", name); len(known) > 0 {
				mistake = fmt.Errorf("%w; did you mean %s?", mistake, strings.Join(known, " or "))
			}
		}
		all = append(all, mistake)
	}
	return all
}

// places lists the paths of all fields of a name in a type of this package, which stands at a path.
func places(t reflect.Type, at, name string) []string {
	for ; t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice; t = t.Elem() {
		if t.Kind() == reflect.Slice {
			at += "[]"
		}
	}
	if t.Kind() != reflect.Struct || t.PkgPath() != reflect.TypeFor[GeoRegisterClusterSpec]().PkgPath() {
		return nil
	}
	var all []string
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == name {
			all = append(all, at+"."+tag)
		}
		all = append(all, places(f.Type, at+"."+tag, name)...)
	}
	return all
}

// readable renders a value of the wrong type by its path in the manifest instead of Go's names.
func readable(err error, manifest []byte) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		return fmt.Errorf("%s: expected %s, not %s", wrong.Field, expected(wrong.Type), article(wrong.Value))
	}
	if wrong != nil {
		return fmt.Errorf("expected a GeoRegisterCluster, not %s; start from one of config/samples",
			article(wrong.Value))
	}
	var fields any
	if json.Unmarshal(manifest, &fields) == nil {
		if each := wrongQuantities(reflect.TypeFor[GeoRegisterCluster](), fields, ""); len(each) > 0 {
			return errors.Join(each...) // the decoder does not say which one
		}
	}
	return fmt.Errorf("decode manifest: %w", err)
}

// wrongQuantities names the fields of a type, which stands at a path, whose value is to be a quantity and is none.
func wrongQuantities(t reflect.Type, value any, at string) (each []error) {
	for ; t.Kind() == reflect.Pointer; t = t.Elem() {
	}
	if t == reflect.TypeFor[resource.Quantity]() {
		var q resource.Quantity
		if text, err := json.Marshal(value); err != nil || json.Unmarshal(text, &q) != nil {
			each = append(each,
				fmt.Errorf("%s: expected a quantity, such as 10Gi or 500m, not %q", at, fmt.Sprint(value)))
		}
		return each
	}
	within := func(t reflect.Type, name string, value any) {
		each = append(each, wrongQuantities(t, value, strings.TrimPrefix(at+"."+name, "."))...)
	}
	fields, _ := value.(map[string]any)
	elements, _ := value.([]any)
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			if v, there := fields[name]; there {
				within(t.Field(i).Type, name, v)
			}
		}
	case reflect.Map:
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			within(t.Elem(), name, fields[name])
		}
	case reflect.Slice:
		for i, v := range elements {
			each = append(each, wrongQuantities(t.Elem(), v, fmt.Sprintf("%s[%d]", at, i))...)
		}
	}
	return each
}

// What is expected in manifests, by the type that has it or by its kind.
var (
	expectedOf = map[reflect.Type]string{
		reflect.TypeFor[Duration]():   "a duration with its unit, such as 72ms",
		reflect.TypeFor[Percentage](): "a percentage with its sign, such as 0.5%",
		reflect.TypeFor[BitRate]():    "bits a second with their unit, such as 100Mbit",
	}
	expectedOfKind = map[reflect.Kind]string{
		reflect.String: "a string",
		reflect.Slice:  "a list",
		reflect.Struct: "an object",
		reflect.Map:    "an object",
		reflect.Int32:  "a whole number of 32 bits",
		reflect.Int64:  "a whole number of 64 bits",
	}
)

func expected(t reflect.Type) string {
	return cmp.Or(expectedOf[t], expectedOfKind[t.Kind()], t.String())
}

// article names a JSON value, which the decoder spells "string", "number 1.5", "array" and so on.
func article(value string) string {
	switch value {
	case "array", "object":
		return "an " + value
	}
	return "a " + value
}
