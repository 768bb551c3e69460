// Compiles and evaluates expressions as cel-go does, in the environment of kube-apiserver or of kro.
//
// Reads one JSON object per line, {"expression": …, "variables": {NAME: {"type": …, "value": …}}}, and writes one per line,
// {"class": "ok" | "compile-error" | "runtime-error", "type": …, "value": …, "cost": …, "spent": …, "error": …}. The environment is
// chosen when it is built, with kubernetes.go or kro.go, because the two have different versions of cel-go. See
// hack/differential-cel.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
)

type variable struct {
	Type  string `json:"type"`
	Value any    `json:"value"`
}

type question struct {
	Expression string              `json:"expression"`
	Variables  map[string]variable `json:"variables"`
}

type answer struct {
	Class string  `json:"class"`
	Type  string  `json:"type,omitempty"`
	Value string  `json:"value,omitempty"`
	Cost  *uint64 `json:"cost,omitempty"`
	Spent *uint64 `json:"spent,omitempty"`
	Error string  `json:"error,omitempty"`
}

func main() {
	base, err := environment()
	if err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<24)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for in.Scan() {
		reply, err := json.Marshal(ask(base, in.Bytes()))
		if err != nil {
			panic(err)
		}
		out.Write(append(reply, '\n'))
		out.Flush()
	}
}

func ask(base *cel.Env, line []byte) (reply answer) {
	defer func() {
		if cause := recover(); cause != nil {
			if failed, ok := cause.(*types.Err); ok {
				reply.Class, reply.Error = "runtime-error", failed.Error()
				return
			}
			reply = answer{Class: "panic", Error: fmt.Sprint(cause)}
		}
	}()
	var asked question
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber()
	if err := decoder.Decode(&asked); err != nil {
		return answer{Class: "bad-question", Error: err.Error()}
	}
	options := []cel.EnvOption{}
	values := map[string]any{}
	for name, variable := range asked.Variables {
		options = append(options, cel.Variable(name, parseType(variable.Type)))
		values[name] = native(variable.Value)
	}
	env, err := base.Extend(options...)
	if err != nil {
		return answer{Class: "bad-question", Error: err.Error()}
	}
	ast, issues := env.Compile(asked.Expression)
	if issues.Err() != nil {
		return answer{Class: "compile-error", Error: issues.Err().Error()}
	}
	reply.Type = ast.OutputType().String()
	reply.Cost = estimate(env, ast)
	program, err := env.Program(ast)
	if err != nil { // both refuse the definition then, as for an expression that does not compile
		return answer{Class: "compile-error", Error: err.Error()}
	}
	value, details, err := program.Eval(values)
	reply.Spent = details.ActualCost()
	switch {
	case err != nil:
		reply.Class, reply.Error = "runtime-error", err.Error()
	case types.IsUnknownOrError(value):
		reply.Class, reply.Error = "runtime-error", fmt.Sprint(value)
	default:
		reply.Class, reply.Value = "ok", render(value)
	}
	return reply
}

// parseType reads a type without spaces, such as map(string,list(int)).
func parseType(text string) *cel.Type {
	plain := map[string]*cel.Type{
		"dyn": cel.DynType, "bool": cel.BoolType, "int": cel.IntType, "double": cel.DoubleType, "string": cel.StringType,
	}
	if found, ok := plain[text]; ok {
		return found
	}
	if inner, ok := strings.CutPrefix(text, "list("); ok {
		return cel.ListType(parseType(strings.TrimSuffix(inner, ")")))
	}
	if inner, ok := strings.CutPrefix(text, "map(string,"); ok {
		return cel.MapType(cel.StringType, parseType(strings.TrimSuffix(inner, ")")))
	}
	panic("a type that is not known: " + text)
}

// native gives numbers the types that unstructured objects have.
func native(value any) any {
	switch value := value.(type) {
	case json.Number:
		if whole, err := value.Int64(); err == nil {
			return whole
		}
		float, err := value.Float64()
		if err != nil {
			panic(err)
		}
		return float
	case []any:
		for index, item := range value {
			value[index] = native(item)
		}
	case map[string]any:
		for key, item := range value {
			value[key] = native(item)
		}
	}
	return value
}
