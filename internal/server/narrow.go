package server

import "strconv"

// narrow is so on systems of 32 bits, where a server that is embedded in this process can't reply larger integers.
const narrow = strconv.IntSize == 32

// narrowed has a script reply what is larger as text; narrow.lua says how.
func narrowed(source string) string {
	return "local function script()\n" + source + "end\n" + read("narrow")
}

// widen makes numbers of that text.
func widen(reply any) any {
	switch v := reply.(type) {
	case string:
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			return n
		}
	case []any:
		for i := range v {
			v[i] = widen(v[i])
		}
	}
	return reply
}
