// Controllers for trials, made as their authors make them: with client-go's informers, and with a controller-runtime
// manager over several logical clusters that elects its leader through a Lease. hack/real-clients builds it.
//
//	controllers informers --kubeconfig FILE --server URL     prints what informers of ConfigMaps and WebApps are told
//	controllers manager --kubeconfig FILE --server URL ...   copies ConfigMaps in each of the clusters
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

const (
	// label marks what is copied.
	label = "trial.example.org/source"
	// finalizer lets the copy go first.
	finalizer = "trial.example.org/copy"
)

type servers []string

func (s *servers) String() string { return fmt.Sprint(*s) }
func (s *servers) Set(text string) error {
	*s = append(*s, text)
	return nil
}

func main() {
	if len(os.Args) < 2 {
		log.Fatal("usage: controllers informers|manager ...")
	}
	var urls servers
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "whose user this is")
	flags.Var(&urls, "server", "a logical cluster")
	if err := flags.Parse(os.Args[2:]); err != nil || len(urls) == 0 {
		log.Fatal("a server is required: ", err)
	}
	ctrl.SetLogger(klog.Background())
	var configs []*rest.Config
	for _, url := range urls {
		config, err := clientcmd.BuildConfigFromFlags(url, *kubeconfig)
		if err != nil {
			log.Fatal(err)
		}
		configs = append(configs, config)
	}
	ctx := ctrl.SetupSignalHandler()
	var err error
	switch os.Args[1] {
	case "informers":
		err = inform(ctx, configs[0])
	case "manager":
		err = manage(ctx, configs)
	default:
		err = errors.New("no such program")
	}
	if err != nil {
		log.Fatal(err)
	}
}

// inform prints one line for each event, and "synced" once the first lists have been handed out.
func inform(ctx context.Context, config *rest.Config) error {
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	maps := informers.NewSharedInformerFactoryWithOptions(typed, 0, informers.WithNamespace("default"),
		informers.WithTweakListOptions(func(options *metav1.ListOptions) { options.LabelSelector = label }))
	instances := dynamicinformer.NewDynamicSharedInformerFactory(untyped, 0)
	webapps := schema.GroupVersionResource{Group: "kro.run", Version: "v1alpha1", Resource: "webapps"}
	for kind, informer := range map[string]cache.SharedIndexInformer{
		"configmap": maps.Core().V1().ConfigMaps().Informer(),
		"webapp":    instances.ForResource(webapps).Informer(),
	} {
		if _, err := informer.AddEventHandler(printer(kind)); err != nil {
			return err
		}
	}
	maps.Start(ctx.Done())
	instances.Start(ctx.Done())
	maps.WaitForCacheSync(ctx.Done())
	instances.WaitForCacheSync(ctx.Done())
	fmt.Println("synced")
	<-ctx.Done()
	return nil
}

func printer(kind string) cache.ResourceEventHandler {
	print := func(event string, object any) {
		if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = gone.Obj
		}
		meta := object.(metav1.Object)
		fmt.Printf("%s %s/%s %s\n", event, kind, meta.GetName(), meta.GetUID())
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { print("added", object) },
		UpdateFunc: func(_, object any) { print("updated", object) },
		DeleteFunc: func(object any) { print("deleted", object) },
	}
}

// manage runs one manager with a controller for each cluster. It prints "leading" when it has been elected.
func manage(ctx context.Context, configs []*rest.Config) error {
	lease, renew, retry := 30*time.Second, 20*time.Second, 2*time.Second
	elected, err := manager.New(configs[0], manager.Options{
		Metrics:                 server.Options{BindAddress: "0"},
		LeaderElection:          true,
		LeaderElectionID:        "trial",
		LeaderElectionNamespace: "default",
		LeaseDuration:           &lease,
		RenewDeadline:           &renew,
		RetryPeriod:             &retry,
	})
	if err != nil {
		return err
	}
	for index, config := range configs {
		var member cluster.Cluster = elected
		if index > 0 {
			if member, err = cluster.New(config); err != nil {
				return err
			}
			if err := elected.Add(member); err != nil {
				return err
			}
		}
		if err := copyIn(elected, member, fmt.Sprintf("copy-%d", index)); err != nil {
			return err
		}
	}
	go func() {
		<-elected.Elected()
		fmt.Println("leading")
	}()
	return elected.Start(ctx)
}

func copyIn(elected manager.Manager, member cluster.Cluster, name string) error {
	owner := handler.TypedEnqueueRequestForOwner[*corev1.ConfigMap](
		member.GetScheme(), member.GetRESTMapper(), &corev1.ConfigMap{}, handler.OnlyControllerOwner())
	return ctrl.NewControllerManagedBy(elected).Named(name).
		WatchesRawSource(source.Kind(member.GetCache(), &corev1.ConfigMap{},
			&handler.TypedEnqueueRequestForObject[*corev1.ConfigMap]{})).
		WatchesRawSource(source.Kind(member.GetCache(), &corev1.ConfigMap{}, owner)).
		Complete(&copier{member.GetClient(), name})
}

// copier keeps a copy of each marked ConfigMap.
type copier struct {
	client client.Client
	name   string
}

func (c *copier) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var original corev1.ConfigMap
	if err := c.client.Get(ctx, request.NamespacedName, &original); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if _, marked := original.Labels[label]; !marked {
		return ctrl.Result{}, nil
	}
	copied := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: original.Namespace, Name: original.Name + "-copy"}}
	if !original.DeletionTimestamp.IsZero() {
		if err := c.client.Delete(ctx, copied); err != nil && !apierrors.IsNotFound(err) {
			return ctrl.Result{}, err
		}
		controllerutil.RemoveFinalizer(&original, finalizer)
		return ctrl.Result{}, client.IgnoreNotFound(c.client.Update(ctx, &original))
	}
	if controllerutil.AddFinalizer(&original, finalizer) {
		return ctrl.Result{}, c.client.Update(ctx, &original)
	}
	done, err := controllerutil.CreateOrUpdate(ctx, c.client, copied, func() error {
		copied.Data = original.Data
		return controllerutil.SetControllerReference(&original, copied, c.client.Scheme())
	})
	if done != controllerutil.OperationResultNone {
		fmt.Printf("%s %s %s\n", c.name, done, request.Name)
	}
	return ctrl.Result{}, err
}
