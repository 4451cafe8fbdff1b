package objectstatus

import (
	"errors"
	"fmt"

	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Health is what a health script of Argo CD returns.
type Health struct {
	Status  string // Healthy, Progressing, Degraded or Suspended
	Message string
}

// ArgoCD runs a health script with the libraries that Argo CD gives one: no strings, no files, no
// clock.
func ArgoCD(script string, raw *unstructured.Unstructured) (Health, error) {
	vm := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer vm.Close()
	for _, library := range []struct {
		name string
		open lua.LGFunction
	}{{lua.LoadLibName, lua.OpenPackage}, {lua.BaseLibName, lua.OpenBase}, {lua.TabLibName, lua.OpenTable}} {
		if err := vm.CallByParam(lua.P{Fn: vm.NewFunction(library.open), Protect: true}, lua.LString(library.name)); err != nil {
			return Health{}, err
		}
	}
	vm.SetGlobal("obj", luaValue(vm, raw.Object))
	if err := vm.DoString(script); err != nil {
		return Health{}, err
	}
	result, isTable := vm.Get(-1).(*lua.LTable)
	if !isTable {
		return Health{}, errors.New("the script returned no table")
	}
	health := Health{Status: lua.LVAsString(result.RawGetString("status")), Message: lua.LVAsString(result.RawGetString("message"))}
	switch health.Status {
	case "Healthy", "Progressing", "Degraded", "Suspended":
		return health, nil
	}
	return Health{}, fmt.Errorf("the script returned the status %q", health.Status)
}

// luaValue converts a value of a JSON document.
func luaValue(vm *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case map[string]any:
		table := vm.NewTable()
		for key, entry := range value {
			table.RawSetString(key, luaValue(vm, entry))
		}
		return table
	case []any:
		table := vm.NewTable()
		for _, entry := range value {
			table.Append(luaValue(vm, entry))
		}
		return table
	case string:
		return lua.LString(value)
	case bool:
		return lua.LBool(value)
	case int64:
		return lua.LNumber(value)
	case float64:
		return lua.LNumber(value)
	}
	return lua.LNil
}
