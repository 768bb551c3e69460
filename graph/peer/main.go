// Builds definitions as kro's controller does, with its own builder against a cluster, and tells what a build takes.
//
// Reads one ResourceGraphDefinition as JSON per line, and writes one JSON object per line,
// {"builds": …, "wall_us": …, "cpu_us": …, "bytes": …}: how often it was built within -for, and what one build took of time, of all
// the processor's threads and of allocated memory. The first build of each, which asks the cluster for kinds, is not counted.
// See hack/kro-builder.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/kubernetes-sigs/kro/api/v1alpha1"
	"github.com/kubernetes-sigs/kro/pkg/graph"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Limits as kro's controller has them by default.
var limits = graph.Config{MaxCollectionSize: 1000, MaxCollectionDimensionSize: 10}

type answer struct {
	Builds int     `json:"builds"`
	Wall   float64 `json:"wall_us"`
	CPU    float64 `json:"cpu_us"`
	Bytes  float64 `json:"bytes"`
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "the cluster that is asked for kinds")
	span := flag.Duration("for", 2*time.Second, "how long each definition is built again and again")
	flag.Parse()
	if err := run(*kubeconfig, *span); err != nil {
		fmt.Fprintln(os.Stderr, "kro-builder:", err)
		os.Exit(1)
	}
}

func run(kubeconfig string, span time.Duration) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	builder, err := graph.NewBuilder(config, client)
	if err != nil {
		return err
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<24)
	for in.Scan() {
		var definition v1alpha1.ResourceGraphDefinition
		if err := json.Unmarshal(in.Bytes(), &definition); err != nil {
			return err
		}
		taken, err := measure(builder, &definition, span)
		if err != nil {
			return err
		}
		line, err := json.Marshal(taken)
		if err != nil {
			return err
		}
		fmt.Println(string(line))
	}
	return in.Err()
}

func measure(builder *graph.Builder, definition *v1alpha1.ResourceGraphDefinition, span time.Duration) (taken answer, err error) {
	if _, err = builder.NewResourceGraphDefinition(definition, limits); err != nil {
		return taken, err
	}
	runtime.GC()
	bytes, cpu, begun := allocated(), processor(), time.Now()
	for time.Since(begun) < span {
		if _, err = builder.NewResourceGraphDefinition(definition, limits); err != nil {
			return taken, err
		}
		taken.Builds++
	}
	each := float64(taken.Builds)
	taken.Wall = float64(time.Since(begun).Microseconds()) / each
	taken.CPU = float64((processor() - cpu).Microseconds()) / each
	taken.Bytes = float64(allocated()-bytes) / each
	return taken, nil
}

// allocated returns the bytes that were allocated since the start.
func allocated() uint64 {
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	return now.TotalAlloc
}

// processor returns what the process has used of the processor, its garbage collector included.
func processor() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
