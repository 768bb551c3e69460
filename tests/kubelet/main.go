// A kubelet for trials: it runs no pods, and serves what kube-apiserver asks a kubelet for when a user streams.
//
// The protocols are Kubernetes' own (k8s.io/cri-streaming, WebSocket and SPDY/3.1). What is behind them is simple: exec
// runs a process of this machine, attach runs the same one for everybody, port-forward dials loopback, and logs are the
// files of a folder. hack/kubelet builds it.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

const (
	idleTimeout     = 4 * time.Hour
	creationTimeout = 30 * time.Second
	logPollInterval = 20 * time.Millisecond
)

// What an attached client talks to.
var attached = []string{"sh", "-c", "echo attached; exec cat"}

// machine runs what is asked for on this machine, whatever pod it is asked for.
type machine struct{ logs string }

func main() {
	certificate := flag.String("cert", "", "file of the serving certificate")
	key := flag.String("key", "", "file of its key")
	logs := flag.String("logs", "", "folder of the logs, NAMESPACE_POD_CONTAINER.log each")
	portFile := flag.String("port-file", "", "file to write the port to")
	flag.Parse()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	m := &machine{logs: *logs}
	mux := http.NewServeMux()
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", m.exec)
	mux.HandleFunc("/attach/{namespace}/{pod}/{container}", m.attach)
	mux.HandleFunc("/portForward/{namespace}/{pod}", m.portForward)
	mux.HandleFunc("/containerLogs/{namespace}/{pod}/{container}", m.containerLogs)
	server := &http.Server{
		Handler: mux,
		// No HTTP/2, which has no upgrades: as a kubelet.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
	}
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	if err := os.WriteFile(*portFile+".part", []byte(port), 0o600); err != nil {
		log.Fatal(err)
	}
	if err := os.Rename(*portFile+".part", *portFile); err != nil {
		log.Fatal(err)
	}
	log.Fatal(server.ServeTLS(listener, *certificate, *key))
}

func (m *machine) exec(w http.ResponseWriter, r *http.Request) {
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	remotecommand.ServeExec(w, r, m, r.PathValue("pod"), "", r.PathValue("container"), r.URL.Query()["command"],
		options, idleTimeout, creationTimeout, remotecommand.SupportedStreamingProtocols)
}

func (m *machine) attach(w http.ResponseWriter, r *http.Request) {
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	remotecommand.ServeAttach(w, r, m, r.PathValue("pod"), "", r.PathValue("container"),
		options, idleTimeout, creationTimeout, remotecommand.SupportedStreamingProtocols)
}

func (m *machine) portForward(w http.ResponseWriter, r *http.Request) {
	options, err := portforward.NewV4Options(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	portforward.ServePortForward(w, r, m, r.PathValue("pod"), "", options,
		idleTimeout, creationTimeout, portforward.SupportedProtocols)
}

// ExecInContainer runs a process; its exit code goes to the client.
func (m *machine) ExecInContainer(ctx context.Context, pod, uid, container string, command []string, in io.Reader,
	out, errs io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize, timeout time.Duration) error {
	process := exec.CommandContext(ctx, command[0], command[1:]...)
	process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if out != nil {
		process.Stdout = out
	}
	if errs != nil {
		process.Stderr = errs
	}
	if in != nil {
		// By hand: Run would wait for the end of the client's input after the end of the process.
		pipe, err := process.StdinPipe()
		if err != nil {
			return err
		}
		go func() {
			_, _ = io.Copy(pipe, in)
			_ = pipe.Close()
		}()
	}
	err := process.Run()
	var exited *exec.ExitError
	if errors.As(err, &exited) {
		return utilexec.CodeExitError{Err: err, Code: exited.ExitCode()}
	}
	return err
}

// AttachContainer connects the client with a process that says so, and then says again what it is told.
func (m *machine) AttachContainer(ctx context.Context, pod, uid, container string, in io.Reader,
	out, errs io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) error {
	return m.ExecInContainer(ctx, pod, uid, container, attached, in, out, errs, tty, resize, 0)
}

// PortForward copies between a stream and a port of loopback; the end of either direction is passed on alone.
func (m *machine) PortForward(ctx context.Context, pod, uid string, port int32, stream io.ReadWriteCloser) error {
	connection, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		return err
	}
	defer connection.Close()
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(connection, stream)
		_ = connection.(*net.TCPConn).CloseWrite()
	})
	both.Go(func() {
		_, _ = io.Copy(stream, connection)
		_ = stream.Close()
	})
	both.Wait()
	return nil
}

// containerLogs writes a file, and with `follow` what is added to it.
func (m *machine) containerLogs(w http.ResponseWriter, r *http.Request) {
	name := strings.Join([]string{r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container")}, "_")
	file, err := os.Open(filepath.Join(m.logs, filepath.Base(name)+".log"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	defer file.Close()
	w.Header().Set("Content-Type", "text/plain")
	follow := r.FormValue("follow") == "true"
	for {
		if _, err := io.Copy(w, file); err != nil || !follow {
			return
		}
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-time.After(logPollInterval):
		}
	}
}
