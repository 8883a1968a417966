package ratelimit

import (
	"errors"
	"fmt"
	"math/bits"

	"redis-throttle/ratelimit/charge"
)

// fields is a set of what a Call and its keys can say. A caller that sets a field expects that it does something: one
// that the verb does not take is an error.
type fields uint32

const (
	fieldCost fields = 1 << iota
	fieldNoCost
	fieldCharge
	fieldAny
	fieldBan
	fieldBanAfter
	fieldMaxWait
	fieldGroup
	fieldPriority
	fieldWeight
	fieldID
	fieldEach
	// The rest belong to a Key.
	fieldLimits
	fieldSlots
	fieldTTL
)

// fieldNames are the names of the fields, in the order of their bits.
var fieldNames = [...]string{
	"Cost", "NoCost", "Charge", "Any", "Ban", "BanAfter", "MaxWait", "Group", "Priority", "Weight", "ID", "Each",
	"Limits", "Slots", "TTL",
}

const (
	units = fieldCost | fieldNoCost | fieldLimits
	slots = fieldID | fieldSlots | fieldTTL
	turn  = fieldMaxWait | fieldGroup | fieldPriority | fieldWeight
)

// takes are the fields that each verb takes, beside the Keys and their Names, as spec/clients/calls.json.
var takes = [numVerbs]fields{
	VerbLimit:    units | slots | fieldCharge | fieldAny | fieldBan | fieldBanAfter | fieldMaxWait | fieldEach,
	VerbPeek:     units | fieldEach,
	VerbRefund:   units | fieldEach,
	VerbWait:     units | turn | fieldEach,
	VerbBan:      fieldBan,
	VerbLease:    slots | turn,
	VerbRenew:    fieldID | fieldTTL,
	VerbRelease:  fieldID,
	VerbSettle:   slots | fieldLimits | fieldEach, // Slots and TTL may stay as they were when the leases were taken
	VerbReset:    0,
	VerbThrottle: units,
	VerbDenied:   fieldCost,
}

// set are the fields of c that are not zero, without those of its keys.
func (c *Call) set() (set fields) {
	for i, isSet := range [...]bool{
		c.Cost != 0, c.NoCost, c.Charge != "", c.Any, c.Ban != 0, c.BanAfter != "", c.MaxWait != 0, c.Group != "", c.Priority != 0, c.Weight != 0, c.ID != "",
		c.Each,
	} {
		if isSet {
			set |= 1 << i
		}
	}
	return set
}

// set are the fields of k that are not zero, without its Name.
func (k *Key) set() (set fields) {
	if len(k.Limits) > 0 {
		set |= fieldLimits
	}
	if k.Slots != 0 {
		set |= fieldSlots
	}
	if k.TTL != 0 {
		set |= fieldTTL
	}
	return set
}

// areDenials says whether text is what BanAfter takes.
func areDenials(text string) bool {
	count, every, err := parseQuota(text, false)
	return err == nil && count > 0 && every.positive()
}

// String is the name of the first field.
func (f fields) String() string { return fieldNames[bits.TrailingZeros32(uint32(f))] }

// check refuses what the verb does not take, and fields that contradict each other. What the server refuses by itself
// comes back as its own error.
func (c *Call) check(several bool) error {
	if len(c.Keys) != 1 && !several {
		return fmt.Errorf("%v takes one key, not %d", c.Verb, len(c.Keys))
	}
	set := c.set()
	if useless := set &^ takes[c.Verb]; useless != 0 {
		return fmt.Errorf("%v does not take %v", c.Verb, useless)
	}
	leased := false
	for i := range c.Keys {
		if err := c.checkKey(i, several); err != nil {
			return err
		}
		leased = leased || c.Keys[i].TTL != 0
	}
	switch {
	case c.Charge != "" && c.Charge != charge.UpTo && c.Charge != charge.Strict && c.Charge != charge.Force:
		return fmt.Errorf("the Charge must be up_to, strict or force, not %q", string(c.Charge))
	case c.BanAfter != "" && c.Ban == 0:
		return errors.New("BanAfter goes with a Ban")
	case c.BanAfter != "" && !areDenials(c.BanAfter):
		return fmt.Errorf("BanAfter is a count, at least 1, and a period, such as 10/1h, not %q", c.BanAfter)
	case c.Cost < 0:
		return fmt.Errorf("the Cost, %d, is negative", c.Cost)
	case c.NoCost && c.Cost != 0:
		return fmt.Errorf("there is a Cost, %d, beside NoCost", c.Cost)
	case c.ID != "" && c.Verb == VerbLimit && !leased:
		return errors.New("limit takes an ID only if a key has Slots with a TTL")
	case set&(fieldGroup|fieldPriority) != 0 && c.Verb == VerbLease && c.MaxWait == 0:
		return fmt.Errorf("lease takes a %v only with a MaxWait", set&(fieldGroup|fieldPriority))
	case c.Weight != 0 && c.Group == "":
		return fmt.Errorf("%v takes a Weight only with a Group", c.Verb)
	}
	return nil
}

func (c *Call) checkKey(i int, several bool) error {
	key := &c.Keys[i]
	set := key.set()
	if useless := set &^ takes[c.Verb]; useless != 0 {
		return fmt.Errorf("%v does not take %v of a key", c.Verb, useless)
	}
	for j := range key.Limits {
		if err := key.Limits[j].check(); err != nil {
			return err
		}
	}
	switch {
	case set&fieldLimits != 0 && set != fieldLimits:
		return fmt.Errorf("key %d of %d has %v beside Limits: a key has either Limits or Slots with a TTL", i+1, len(c.Keys), set&^fieldLimits)
	case c.Verb == VerbLimit && set == fieldSlots:
		return fmt.Errorf("key %d of %d has Slots without a TTL", i+1, len(c.Keys))
	case c.Verb == VerbLimit && several && set == 0:
		return fmt.Errorf("key %d of %d has neither Limits nor Slots with a TTL", i+1, len(c.Keys))
	}
	return nil
}
