package config

import (
	"math"
	"testing"

	limits "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// sent reads resources as a management server sends them. Each text is one in JSON.
func sent(t testing.TB, texts ...string) (*Config, error) {
	t.Helper()
	var all []*anypb.Any
	for _, text := range texts {
		c := &limits.RateLimitConfig{}
		require.NoError(t, protojson.Unmarshal([]byte(text), c), text)
		one, err := anypb.New(c)
		require.NoError(t, err)
		all = append(all, one)
	}
	return Resources(all).Parse(false)
}

// The same text makes the same configuration, as a file or as a resource.
func TestAResourceIsReadAsAFile(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"domain": "d"}`,
		`{"domain": "d", "descriptors": [{"key": "a", "rate_limit": {"unit": "HOUR", "requests_per_unit": 5}}]}`,
		`{"domain": "d", "descriptors": [{"key": "a", "rate_limit": {"unit": "YEAR"}}, {"key": "a", "value": "42", "rate_limit": {"unit": "WEEK", "requests_per_unit": 4294967295}}]}`,
		`{"domain": "d", "descriptors": [{"key": "a", "value": "x*y", "descriptors": [{"key": "b", "rate_limit": {"unit": "MONTH", "requests_per_unit": 1}, "shadow_mode": true, "detailed_metric": true}]}]}`,
		`{"domain": "d", "descriptors": [{"key": "a", "rate_limit": {"unlimited": true, "name": "n"}}, {"key": "b", "quota_mode": true, "rate_limit": {"unit": "DAY", "name": "m", "replaces": [{"name": "n"}]}}]}`,
		`{"domain": "d", "descriptors": [{"key": "a", "value": "true", "metadata": {"s": "1", "n": 1.5, "b": true, "l": ["x", {"y": null}]}, "rate_limit": {"unit": "SECOND", "requests_per_unit": 1}}]}`,
	} {
		inFile, err := load(t, false, text)
		require.NoError(t, err, text)
		byServer, err := sent(t, text)
		require.NoError(t, err, text)
		assert.Equal(t, inFile.Domains, byServer.Domains, text)
		assert.Equal(t, inFile.Doubts, byServer.Doubts, text)
	}
}

// A mistake is told with the domain and the path of the field, which the server logs.
func TestMistakesInResourcesAreToldWithTheirPath(t *testing.T) {
	t.Parallel()
	const right = `{"name": "a", "domain": "a", "descriptors": [{"key": "k", "rate_limit": {"unit": "DAY", "requests_per_unit": 1}}]}`
	for want, texts := range map[string][]string{
		`the domain "": the domain is missing: expected domain: NAME`:                                         {`{}`},
		`the resource "r" with the domain "": the domain is missing: expected domain: NAME`:                   {`{"name": "r"}`},
		`the domain "b": descriptors[0]: a descriptor needs a key`:                                            {right, `{"name": "b", "domain": "b", "descriptors": [{}]}`},
		`the domain "d": descriptors[1].key: the descriptor "d.k_v" is there twice`:                           {`{"name": "d", "domain": "d", "descriptors": [{"key": "k", "value": "v"}, {"key": "k", "value": "v"}]}`},
		`the domain "d": descriptors[0].descriptors[0].rate_limit: rate_limit needs a unit`:                   {`{"name": "d", "domain": "d", "descriptors": [{"key": "k", "descriptors": [{"key": "l", "rate_limit": {}}]}]}`},
		`the domain "d": descriptors[0].rate_limit.unit: "99": expected second`:                               {`{"name": "d", "domain": "d", "descriptors": [{"key": "k", "rate_limit": {"unit": 99}}]}`},
		`the domain "d": descriptors[0].rate_limit.unit: unlimited goes with neither a unit nor limits`:       {`{"name": "d", "domain": "d", "descriptors": [{"key": "k", "rate_limit": {"unit": "DAY", "unlimited": true}}]}`},
		`the domain "d": descriptors[0].rate_limit.replaces[0]: replaces needs the name of another limit`:     {`{"name": "d", "domain": "d", "descriptors": [{"key": "k", "rate_limit": {"unit": "DAY", "replaces": [{}]}}]}`},
		`the domain "d": descriptors[0].rate_limit: a limit cannot replace itself: "n"`:                       {`{"name": "d", "domain": "d", "descriptors": [{"key": "k", "rate_limit": {"unit": "DAY", "name": "n", "replaces": [{"name": "n"}]}}]}`},
		`the resource "a" is there twice`:                                                                     {right, right},
		`the resource "b" with the domain "a": domain: the domain "a" is in another file or resource already`: {`{"name": "b", "domain": "a"}`, right},
	} {
		_, err := sent(t, texts...)
		assert.ErrorContains(t, err, want)
	}
	_, err := Resources([]*anypb.Any{{TypeUrl: ResourceType, Value: []byte{0xff}}}).Parse(false)
	assert.ErrorContains(t, err, "the resource at 0 is no "+ResourceType)
	other, err := anypb.New(wrapperspb.String("x"))
	require.NoError(t, err)
	_, err = Resources([]*anypb.Any{other}).Parse(false)
	assert.ErrorContains(t, err, "the resource at 0 is no "+ResourceType)
	strange, err := anypb.New(&limits.RateLimitConfig{Domain: "d", Descriptors: []*limits.RateLimitDescriptor{
		{Key: "k", Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"n": structpb.NewNumberValue(math.NaN())}}},
	}})
	require.NoError(t, err)
	_, err = Resources([]*anypb.Any{strange}).Parse(false)
	assert.NoError(t, err)
}

// Descriptors in descriptors without end are refused before they are read: nine thousand took half a minute of a
// processor, and gigabytes.
func TestResourcesAreNotTooDeep(t *testing.T) {
	t.Parallel()
	nested := func(levels int) *anypb.Any {
		d := &limits.RateLimitDescriptor{Key: "k", RateLimit: &limits.RateLimitPolicy{Unit: limits.RateLimitUnit_DAY, RequestsPerUnit: 1}}
		for range levels {
			d = &limits.RateLimitDescriptor{Key: "k", Descriptors: []*limits.RateLimitDescriptor{d}}
		}
		one, err := anypb.New(&limits.RateLimitConfig{Name: "d", Domain: "d", Descriptors: []*limits.RateLimitDescriptor{d}})
		require.NoError(t, err)
		return one
	}
	for levels, want := range map[int]string{100: "lists in lists, more than 64 deep", 2000: "recursion depth"} {
		_, err := Resources([]*anypb.Any{nested(levels)}).Parse(false)
		assert.ErrorContains(t, err, want)
	}
	_, err := Resources([]*anypb.Any{nested(20)}).Parse(false)
	assert.NoError(t, err)
}

// The order in which a server sends resources changes nothing, and no resources are a configuration: every domain has
// gone.
func TestTheOrderOfResourcesDoesNotMatter(t *testing.T) {
	t.Parallel()
	a, b := `{"name": "a", "domain": "d"}`, `{"name": "b", "domain": "e", "descriptors": [{"key": "k"}]}`
	one, err := sent(t, a, b)
	require.NoError(t, err)
	other, err := sent(t, b, a)
	require.NoError(t, err)
	assert.Equal(t, one.Version, other.Version)
	changed, err := sent(t, a, `{"name": "b", "domain": "e", "descriptors": [{"key": "l"}]}`)
	require.NoError(t, err)
	assert.NotEqual(t, one.Version, changed.Version)
	none, err := sent(t)
	require.NoError(t, err)
	assert.Empty(t, none.Domains)
}

// What a newer server says and this program cannot know is told, with its place.
func TestUnknownFieldsOfResourcesAreTold(t *testing.T) {
	t.Parallel()
	c := &limits.RateLimitConfig{Name: "d", Domain: "d",
		Descriptors: []*limits.RateLimitDescriptor{{Key: "k", RateLimit: &limits.RateLimitPolicy{Unit: limits.RateLimitUnit_DAY}}}}
	c.Descriptors[0].RateLimit.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 77, protowire.VarintType), 1))
	one, err := anypb.New(c)
	require.NoError(t, err)
	files := Resources([]*anypb.Any{one})
	for range 2 {
		read, err := files.Parse(false)
		require.NoError(t, err)
		assert.Equal(t, []string{`the domain "d": descriptors[0].rate_limit.field 77 of RateLimitPolicy is not known here, and ignored: the server is newer`}, read.Doubts)
	}
}

// Whatever a server sends, reading it ends.
func FuzzResource(f *testing.F) {
	for _, one := range []*limits.RateLimitConfig{{Domain: "d",
		Descriptors: []*limits.RateLimitDescriptor{{Key: "k", Value: "*", RateLimit: &limits.RateLimitPolicy{Unit: 1}}}}} {
		text, err := anypb.New(one)
		require.NoError(f, err)
		f.Add(text.Value)
	}
	f.Fuzz(func(_ *testing.T, text []byte) {
		_, _ = Resources([]*anypb.Any{{TypeUrl: ResourceType, Value: text}}).Parse(false)
	})
}
