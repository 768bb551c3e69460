package main

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"k8s.io/apimachinery/pkg/util/version"
	celenvironment "k8s.io/apiserver/pkg/cel/environment"
	apilibrary "k8s.io/apiserver/pkg/cel/library"
)

// environment is that of rules in stored objects, which have every library.
func environment() (*cel.Env, error) {
	return celenvironment.MustBaseEnvSet(version.MajorMinor(1, 36)).StoredExpressionsEnv(), nil
}

// estimate gives what the expression costs at most, by the estimator that kube-apiserver judges definitions with.
func estimate(env *cel.Env, ast *cel.Ast) *uint64 {
	cost, err := env.EstimateCost(ast, &apilibrary.CostEstimator{SizeEstimator: sizes{}})
	if err != nil {
		return nil
	}
	return &cost.Max
}

// sizes is what is known of how large variables are: at most ten items or characters, at every depth.
type sizes struct{}

func (sizes) EstimateSize(node checker.AstNode) *checker.SizeEstimate {
	if len(node.Path()) == 0 {
		return nil
	}
	for _, name := range node.Path()[1:] {
		switch name {
		case "@items", "@values":
		case "@keys":
			return &checker.SizeEstimate{Min: 0, Max: 0}
		default:
			return nil
		}
	}
	return &checker.SizeEstimate{Min: 0, Max: 10}
}

func (sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}
