package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	limits "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"go.yaml.in/yaml/v4"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
)

// A resource of xDS is read as a file: its fields have the names of a file's keys, so the reader of files checks both,
// and a configuration decides alike whichever way it came.

// ResourceType is the type of the resources, as servers are asked for it.
const ResourceType = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"

// deepestMessage bounds the messages in messages of a resource, before anything is made of them: the paths of n levels
// are as long as n times n. It is more than the reader of files takes: a level of a document is up to three messages.
const deepestMessage = 4 * deepest

// Resources are what a management server sent: one domain each. They count in the order of their names, since a server
// sends them in any.
func Resources(all []*anypb.Any) Files {
	var f Files
	var known []*limits.RateLimitConfig
	for i, one := range all {
		c := &limits.RateLimitConfig{}
		if err := anypb.UnmarshalTo(one, c, proto.UnmarshalOptions{RecursionLimit: deepestMessage}); err != nil {
			f.errs = append(f.errs, fmt.Errorf("the resource at %d is no %s: %w", i, ResourceType, err))
			continue
		}
		known = append(known, c)
	}
	slices.SortStableFunc(known, func(a, b *limits.RateLimitConfig) int { return strings.Compare(a.Name, b.Name) })
	sum := sha256.New()
	for i, one := range known {
		if i > 0 && one.Name == known[i-1].Name {
			f.errs = append(f.errs, fmt.Errorf("the resource %q is there twice", one.Name))
		}
		text, _ := proto.MarshalOptions{Deterministic: true}.Marshal(one) // it came as one
		fmt.Fprintf(sum, "%d\n%s", len(text), text)
		f.list = append(f.list, resource(one))
	}
	for _, err := range f.errs {
		fmt.Fprintln(sum, err)
	}
	f.Version = hex.EncodeToString(sum.Sum(nil)[:6])
	return f
}

// resource is a resource as a file.
func resource(one *limits.RateLimitConfig) file {
	f := file{name: fmt.Sprintf("the domain %q", one.Domain)}
	if one.Name != one.Domain {
		f.name = fmt.Sprintf("the resource %q with the domain %q", one.Name, one.Domain)
	}
	f.document = f.message(one.ProtoReflect(), "")
	return f
}

// message is a message as a mapping. What this program does not know of it is a doubt: the server is newer.
func (f *file) message(m protoreflect.Message, path string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for unknown := m.GetUnknown(); len(unknown) > 0; {
		number, _, length := protowire.ConsumeField(unknown)
		f.doubts = append(f.doubts, fmt.Sprintf("%s: %sfield %d of %s is not known here, and ignored: the server is newer", f.name, path, number, m.Descriptor().Name()))
		unknown = unknown[length:]
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if m.Has(field) && !(path == "" && field.Name() == "name") { // which is the resource's, and no key of a file
			n.Content = append(n.Content, scalar(string(field.Name())), f.value(field, m.Get(field), path+string(field.Name())))
		}
	}
	return n
}

func (f *file) value(field protoreflect.FieldDescriptor, v protoreflect.Value, path string) *yaml.Node {
	if !field.IsList() {
		return f.single(field, v, path)
	}
	n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	for i := range v.List().Len() {
		n.Content = append(n.Content, f.single(field, v.List().Get(i), fmt.Sprintf("%s[%d]", path, i)))
	}
	return n
}

func (f *file) single(field protoreflect.FieldDescriptor, v protoreflect.Value, path string) *yaml.Node {
	switch {
	case field.Enum() != nil:
		if name := field.Enum().Values().ByNumber(v.Enum()); name != nil {
			return scalar(string(name.Name()))
		}
		return scalar(fmt.Sprint(v.Enum()))
	case field.Message() == nil:
		return scalar(v.String())
	}
	if free, ok := v.Message().Interface().(*structpb.Struct); ok {
		n := &yaml.Node{}
		if err := n.Encode(free.AsMap()); err != nil { // NaN has no JSON, but YAML
			return scalar(err.Error())
		}
		return n
	}
	return f.message(v.Message(), path+".")
}

func scalar(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
}

// pathsOf notes the path of each node: descriptors[0].rate_limit.unit.
func pathsOf(n *yaml.Node, path string, to map[*yaml.Node]string) {
	to[n] = path
	for i, inner := range n.Content {
		switch {
		case n.Kind == yaml.SequenceNode:
			pathsOf(inner, fmt.Sprintf("%s[%d]", path, i), to)
		case n.Kind == yaml.MappingNode && i%2 == 1:
			key := n.Content[i-1]
			at := strings.TrimPrefix(path+"."+key.Value, ".")
			to[key] = at
			pathsOf(inner, at, to)
		}
	}
}
