// Package environment gives kro's integration suite a logical cluster of a hub instead of kro's own controllers. It stands in for
// kro's package of the same path; see hack/kro-suite.
//
// Each environment is a cluster of its own: behind the path of a spoke a kube-apiserver with etcd, or an embedded cluster. The
// hub is configured as kro's controllers are there, by the Spoke.
package environment

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	internalv1alpha1 "github.com/kubernetes-sigs/kro/api/internal.kro.run/v1alpha1"
	kroclient "github.com/kubernetes-sigs/kro/pkg/client"
	ctrlinstance "github.com/kubernetes-sigs/kro/pkg/controller/instance"
)

// Environment is a logical cluster, and what the suite asks of kro's environment.
type Environment struct {
	Client      client.Client
	ClientSet   *kroclient.Set
	CtrlManager Manager

	control *envtest.Environment
}

// ControllerConfig is how kro's controllers are configured.
type ControllerConfig struct {
	AllowCRDDeletion  bool
	ReconcileConfig   ctrlinstance.ReconcileConfig
	MaxGraphRevisions int
	LogWriter         io.Writer
}

// Manager is what the suite uses of a controller manager.
type Manager struct{ reader client.Reader }

// GetAPIReader returns a reader that no cache stands before.
func (m Manager) GetAPIReader() client.Reader { return m.reader }

// The definitions of other controllers that the suite needs.
var definitions = []string{
	filepath.Join("../..", "crds", "ack-ec2-controller"),
	filepath.Join("../..", "crds", "ack-iam-controller"),
	filepath.Join("../..", "crds", "ack-eks-controller"),
}

func init() {
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
}

// New makes a cluster, and has the hub serve it.
func New(ctx context.Context, config ControllerConfig) (_ *Environment, failure error) {
	env := &Environment{}
	defer func() {
		if failure != nil {
			_ = env.Stop()
		}
	}()
	name := "suite-" + rand.String(6)
	spoke := map[string]any{
		"apiVersion": "wheelhouse.dev/v1alpha1",
		"kind":       "Spoke",
		"metadata":   map[string]any{"name": name},
		"spec":       map[string]any{"provider": "Embedded"},
	}
	isReal := os.Getenv("KRO_SUITE_REAL") != ""
	if isReal {
		kubeconfig, err := env.start()
		if err != nil {
			return nil, err
		}
		defer os.Remove(kubeconfig)
		if err := run(nil, os.Getenv("WHEELHOUSE_BIN"), "spoke", "add", name, "--from", kubeconfig, "--wait"); err != nil {
			return nil, err
		}
		delete(spoke["spec"].(map[string]any), "provider")
	}
	spoke["spec"].(map[string]any)["kro"] = switches(config)
	object, err := json.Marshal(spoke)
	if err != nil {
		return nil, err
	}
	kubectl := func(input []byte, arguments ...string) error { return run(input, "kubectl", arguments...) }
	if err := kubectl(object, "apply", "--server-side", "-f", "-"); err != nil {
		return nil, err
	}
	if err := kubectl(nil, "wait", "spoke/"+name, "--for=condition=Ready", "--timeout=60s"); err != nil {
		return nil, err
	}
	served, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return nil, err
	}
	served.Host = strings.TrimSuffix(served.Host, "/") + "/clusters/" + name
	served.QPS, served.Burst = 1000, 2000
	if !isReal {
		if _, err := envtest.InstallCRDs(served, envtest.CRDInstallOptions{Paths: definitions, ErrorIfPathMissing: true}); err != nil {
			return nil, err
		}
	}
	return env, env.connect(ctx, served)
}

// NewShared connects to a cluster that another process of the suite has made.
func NewShared(ctx context.Context, served *rest.Config) (*Environment, error) {
	env := &Environment{}
	return env, env.connect(ctx, served)
}

// Stop ends the cluster's own servers. The hub ends with the suite.
func (e *Environment) Stop() error {
	if e == nil || e.control == nil {
		return nil
	}
	return e.control.Stop()
}

// RestartControllers has nothing to restart: the hub serves others too.
func (e *Environment) RestartControllers() error { return nil }

// start starts a kube-apiserver with etcd, configured as kro's environment has it. It returns the path of a kubeconfig.
func (e *Environment) start() (string, error) {
	e.control = &envtest.Environment{
		CRDDirectoryPaths:       definitions,
		ErrorIfCRDPathMissing:   true,
		ControlPlaneStopTimeout: 2 * time.Minute,
	}
	server := e.control.ControlPlane.GetAPIServer().Configure()
	server.Append("enable-admission-plugins", "ValidatingAdmissionPolicy")
	server.Set("enable-priority-and-fairness", "false")
	server.Set("max-requests-inflight", "800")
	server.Set("max-mutating-requests-inflight", "400")
	if _, err := e.control.Start(); err != nil {
		return "", fmt.Errorf("starting a control plane: %w", err)
	}
	user, err := e.control.AddUser(envtest.User{Name: "hub", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return "", err
	}
	kubeconfig, err := user.KubeConfig()
	if err != nil {
		return "", err
	}
	file, err := os.CreateTemp("", "kro-suite-")
	if err != nil {
		return "", err
	}
	defer file.Close()
	_, err = file.Write(kubeconfig)
	return file.Name(), err
}

func (e *Environment) connect(ctx context.Context, served *rest.Config) (err error) {
	for _, add := range []func() error{
		func() error { return internalv1alpha1.AddToScheme(scheme.Scheme) },
		func() error { return krov1alpha1.AddToScheme(scheme.Scheme) },
	} {
		if err := add(); err != nil {
			return err
		}
	}
	if e.ClientSet, err = kroclient.NewSet(kroclient.Config{RestConfig: served}); err != nil {
		return err
	}
	if e.Client, err = client.New(e.ClientSet.RESTConfig(), client.Options{Scheme: scheme.Scheme}); err != nil {
		return err
	}
	e.CtrlManager = Manager{reader: e.Client}
	// Instances of definitions are put where the suite's own namespaces are, and in the default one.
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		var namespace corev1.Namespace
		isThere := e.Client.Get(ctx, client.ObjectKey{Name: "default"}, &namespace) == nil
		var crds apiextensionsv1.CustomResourceDefinitionList
		return isThere && e.Client.List(ctx, &crds) == nil, nil
	})
}

// switches are kro's own for one cluster, as kro's environment sets them.
func switches(config ControllerConfig) map[string]any {
	revisions := config.MaxGraphRevisions
	if revisions <= 0 {
		revisions = 20
	}
	return map[string]any{
		"allowCRDDeletion": config.AllowCRDDeletion,
		"featureGates":     map[string]any{"CELOmitFunction": true},
		"rgd":              map[string]any{"maxGraphRevisions": revisions},
		"version":          "devel",
	}
}

func run(input []byte, program string, arguments ...string) error {
	command := exec.Command(program, arguments...)
	command.Stdin = bytes.NewReader(input)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, strings.Join(arguments, " "), err, output)
	}
	return nil
}
