/* Calls of the kernels of this library from Python, at the cost of Numba's own dispatcher.
 *
 * A call walks over its arguments once and writes down two rows of words: what the arguments are
 * (the fingerprint: types, dtypes, layouts), and their values as Numba's calling convention has
 * them. The fingerprint finds the entry that was compiled for such arguments. A call with a
 * fingerprint that is not known yet goes to a function of Python, which teaches it.
 *
 * Only functions of Python's stable ABI are called, so that one library serves every version; no
 * header of Python or NumPy is needed. The leading fields of arrays and dtypes are those of
 * NumPy's public structures; ``native.library`` compares them with an array before it trusts them.
 */

typedef long long word; /* also the sizes of Python: ``long`` has 32 bits on Windows */
typedef __SIZE_TYPE__ length;
typedef struct object { word references; void *type; } object;
typedef struct {
    object head;
    char *data;
    int n_dimensions;
    word *dimensions, *strides;
    object *base, *dtype;
    int flags;
} array;
typedef struct {
    object head;
    object *scalar_type;
    char kind, code, byte_order, former_flags;
    int number;
    length flags;
    word item_size;
} dtype;
typedef struct { const char *name; object *(*function)(object *, object *); int flags; const char *doc; } method;

/* Python's functions. Their addresses come from the caller: a library that refers to them would have
 * to be linked in another way on each system. */
#define OF_PYTHON(X) \
    X(PyBool_FromLong, object *, (long)) \
    X(PyCapsule_New, object *, (void *, const char *, void *)) \
    X(PyCapsule_GetPointer, void *, (object *, const char *)) \
    X(PyCFunction_NewEx, object *, (method *, object *, object *)) \
    X(PyCFunction_GetSelf, object *, (object *)) \
    X(PyErr_Occurred, void *, (void)) \
    X(PyErr_Clear, void, (void)) \
    X(PyErr_Format, object *, (object *, const char *, ...)) \
    X(PyEval_SaveThread, void *, (void)) \
    X(PyEval_RestoreThread, void, (void *)) \
    X(PyFloat_AsDouble, double, (object *)) \
    X(PyFloat_FromDouble, object *, (double)) \
    X(PyLong_AsLongLong, word, (object *)) \
    X(PyLong_AsUnsignedLongLongMask, length, (object *)) \
    X(PyLong_FromLongLong, object *, (word)) \
    X(PyObject_CallObject, object *, (object *, object *)) \
    X(PyObject_IsTrue, int, (object *)) \
    X(PyTuple_GetItem, object *, (object *, word)) \
    X(PyTuple_New, object *, (word)) \
    X(PyTuple_SetItem, int, (object *, word, object *)) \
    X(PyTuple_Size, word, (object *)) \
    X(PyType_GetFlags, unsigned long, (void *)) \
    X(Py_IncRef, void, (void *))
#define DECLARED(name, result, arguments) static result (*name) arguments;
OF_PYTHON(DECLARED)
static object *none, *memory_error;

extern void *malloc(length);
extern void *realloc(void *, length);
extern void free(void *);
extern void *memcpy(void *, const void *, length);
extern int memcmp(const void *, const void *, length);

#ifdef _WIN32
#define EXPORTED __declspec(dllexport)
#define HIDDEN
#else
#define EXPORTED __attribute__((visibility("default")))
#define HIDDEN __attribute__((visibility("hidden")))
#endif
#define MOST_WORDS 1024
#define MOST_DIMENSIONS 4
#define MOST_TYPES 32
#define IS_TUPLE (1UL << 26)
#define C_ORDER 1
#define F_ORDER 2
#define WRITEABLE 0x400
#define FIXED_ARGUMENTS 1 /* METH_VARARGS */
#define DONE 0
#define DONE_NONE -2

/* What the types of arguments mean, as Python gives them to ``gpuens_know``. */
static struct { void *type; char meaning; } known[MOST_TYPES];
static int n_known;

typedef struct entry {
    struct entry *next;
    int (*function)(word *);
    char result;
    length n_bytes;
    word fingerprint[];
} entry;

/* A kernel: its entries, the latest first, and what Python calls where none fits. They are never
 * freed, so that a thread may walk over them while another one adds an entry. */
typedef struct { entry *first; object *otherwise; char name[]; } kernel;

typedef struct {
    word *fingerprint, *value;
    int keeps; /* what the fingerprint names stays, so that nothing else gets its address */
    word fingerprints[MOST_WORDS], values[MOST_WORDS];
} call;

static int add_array(call *c, array *a) {
    int n = a->n_dimensions;
    if (n > MOST_DIMENSIONS) return 0;
    if (c->keeps) Py_IncRef(a->dtype);
    *c->fingerprint++ = (word)a->dtype;
    *c->fingerprint++ = (word)n << 32 | (a->flags & (C_ORDER | F_ORDER | WRITEABLE));
    word *value = c->value, size = 1;
    for (int i = 0; i < n; i++) {
        value[5 + i] = a->dimensions[i];
        value[5 + n + i] = a->strides[i];
        size *= a->dimensions[i];
    }
    value[0] = value[1] = 0; /* nothing that counts references */
    value[2] = size;
    value[3] = ((dtype *)a->dtype)->item_size;
    value[4] = (word)a->data;
    c->value += 5 + 2 * n;
    return 1;
}

static int add(call *c, object *argument);

static int add_tuple(call *c, object *tuple) {
    word n = PyTuple_Size(tuple);
    *c->fingerprint++ = n;
    for (word i = 0; i < n; i++)
        if (!add(c, PyTuple_GetItem(tuple, i))) return 0;
    return 1;
}

/* Add an argument; 0 where it is not of a kind that is known here. */
static int add(call *c, object *argument) {
    if (c->fingerprint - c->fingerprints > MOST_WORDS - 8) return 0;
    if (c->value - c->values > MOST_WORDS - 5 - 2 * MOST_DIMENSIONS) return 0;
    void *type = argument->type;
    char meaning = 0;
    for (int i = 0; i < n_known && !meaning; i++)
        if (known[i].type == type) meaning = known[i].meaning;
    if (c->keeps) Py_IncRef(type);
    *c->fingerprint++ = (word)type;
    union { float single; double number; word bits; } x = {.bits = 0};
    switch (meaning) {
    case 'a': return add_array(c, (array *)argument);
    case 'd': x.number = PyFloat_AsDouble(argument); break;
    case 's': x.single = (float)PyFloat_AsDouble(argument); break;
    case 'i': x.bits = (word)PyLong_AsUnsignedLongLongMask(argument); break;
    case 'p': /* an int of Python: larger ones have another type in compiled code */
        x.bits = PyLong_AsLongLong(argument);
        if (x.bits == -1 && PyErr_Occurred()) { PyErr_Clear(); return 0; }
        break;
    case 'b': x.bits = PyObject_IsTrue(argument); break;
    default: return PyType_GetFlags(type) & IS_TUPLE ? add_tuple(c, argument) : 0;
    }
    *c->value++ = x.bits;
    return 1;
}

static int read_arguments(call *c, object *arguments, int keeps) {
    c->keeps = keeps;
    c->fingerprint = c->fingerprints;
    c->value = c->values;
    return add_tuple(c, arguments);
}

static object *returned(const kernel *k, const entry *e, int status, word *values) {
    union { word bits; double number; } x = {.bits = values[0]};
    if (status != DONE && status != DONE_NONE)
        return PyErr_Format(memory_error, "%s could not allocate its scratch (status %d).",
                            k->name, status);
    switch (e->result) {
    case 'd': return PyFloat_FromDouble(x.number);
    case 'i': return PyLong_FromLongLong(x.bits);
    case 'b': return PyBool_FromLong(x.bits & 1);
    }
    Py_IncRef(none);
    return none;
}

/* A kernel as Python calls it. */
static object *call_kernel(object *self, object *arguments) {
    kernel *k = PyCapsule_GetPointer(self, 0);
    call c;
    if (!read_arguments(&c, arguments, 0)) return PyObject_CallObject(k->otherwise, arguments);
    length n_bytes = (c.fingerprint - c.fingerprints) * sizeof(word);
    entry *e = __atomic_load_n(&k->first, __ATOMIC_ACQUIRE);
    while (e && !(e->n_bytes == n_bytes && !memcmp(e->fingerprint, c.fingerprints, n_bytes)))
        e = e->next;
    if (!e) return PyObject_CallObject(k->otherwise, arguments);
    void *state = PyEval_SaveThread();
    int status = e->function(c.values);
    PyEval_RestoreThread(state);
    return returned(k, e, status, c.values);
}

static method definition = {"kernel", call_kernel, FIXED_ARGUMENTS, 0};

/* Return the name of one of Python's functions that this library calls, null after the last one. */
EXPORTED const char *gpuens_called(int i) {
#define NAMED(name, result, arguments) #name,
    static const char *const names[] = {OF_PYTHON(NAMED) 0};
    return names[i];
}

/* Take the addresses of these functions, in their order, and of two objects. */
EXPORTED void gpuens_start(void *const *functions, object *of_none, object *of_memory_error) {
#define TAKEN(name, result, arguments) name = (result(*) arguments)*functions++;
    OF_PYTHON(TAKEN)
    none = of_none;
    memory_error = of_memory_error;
}

/* Say what a type of arguments means. */
EXPORTED void gpuens_know(object *type, char meaning) {
    for (int i = 0; i < n_known; i++)
        if (known[i].type == type) return;
    if (n_known == MOST_TYPES) return;
    Py_IncRef(type);
    known[n_known].meaning = meaning;
    known[n_known++].type = type;
}

/* Return a kernel without entries: it calls a function of Python. */
EXPORTED object *gpuens_kernel(const char *name, object *otherwise) {
    length n = 1;
    while (name[n - 1]) n++;
    kernel *k = malloc(sizeof(kernel) + n);
    if (!k) return PyErr_Format(memory_error, "out of memory");
    k->first = 0;
    k->otherwise = otherwise;
    Py_IncRef(otherwise);
    memcpy(k->name, name, n);
    return PyCFunction_NewEx(&definition, PyCapsule_New(k, 0, 0), 0);
}

/* Let a kernel call a function for arguments like these; 0 where they cannot be read. */
EXPORTED int gpuens_learn(object *function, object *arguments, int (*entry_of)(word *), char result) {
    kernel *k = PyCapsule_GetPointer(PyCFunction_GetSelf(function), 0);
    call c;
    if (!read_arguments(&c, arguments, 1)) return 0;
    length n_bytes = (c.fingerprint - c.fingerprints) * sizeof(word);
    entry *e = malloc(sizeof(entry) + n_bytes);
    if (!e) return 0;
    e->next = k->first;
    e->function = entry_of;
    e->result = result;
    e->n_bytes = n_bytes;
    memcpy(e->fingerprint, c.fingerprints, n_bytes);
    __atomic_store_n(&k->first, e, __ATOMIC_RELEASE);
    return 1;
}

/* Return the words of arguments as a kernel gets them, or None: for a comparison with NumPy. */
EXPORTED object *gpuens_words(object *arguments) {
    call c;
    if (!read_arguments(&c, arguments, 0)) { Py_IncRef(none); return none; }
    word n = c.value - c.values;
    object *words = PyTuple_New(n);
    for (word i = 0; words && i < n; i++)
        PyTuple_SetItem(words, i, PyLong_FromLongLong(c.values[i]));
    return words;
}

/* What compiled code asks of Numba's runtime for the arrays and lists that it creates: a header with
 * the count of references first and the data fourth. Those of arrays follow their header; those of
 * lists, which grow, are apart. */
typedef struct {
    word references;
    word is_list;
    void (*destructor)(void *);
    void *data;
    length n_bytes;
    void *allocator;
} memory;

HIDDEN void *NRT_MemInfo_alloc_aligned(length n_bytes, unsigned align) {
    memory *m = malloc(sizeof(memory) + align + n_bytes);
    if (!m) return 0;
    length data = (length)(m + 1);
    *m = (memory){.references = 1, .n_bytes = n_bytes};
    m->data = (void *)((data + align - 1) / align * align);
    return m;
}

HIDDEN void *NRT_MemInfo_new_varsize_dtor(length n_bytes, void (*destructor)(void *)) {
    memory *m = malloc(sizeof(memory));
    void *data = malloc(n_bytes);
    if (!m || !data) { free(m); free(data); return 0; }
    *m = (memory){1, 1, destructor, data, n_bytes, 0};
    return m;
}

HIDDEN void *NRT_MemInfo_varsize_realloc(memory *m, length n_bytes) {
    void *data = realloc(m->data, n_bytes);
    if (!data) return 0;
    m->n_bytes = n_bytes;
    return m->data = data;
}

HIDDEN void NRT_MemInfo_call_dtor(memory *m) {
    if (m->destructor) m->destructor(m->data);
    if (m->is_list) free(m->data);
    free(m);
}
