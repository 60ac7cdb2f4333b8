/* Calls of the kernels of this library from Python, at the cost of Numba's own dispatcher.
 *
 * A call walks over its arguments once and writes down two rows of words: what the arguments are
 * (the fingerprint: types, dtypes, layouts), and their values as Numba's calling convention has
 * them. The fingerprint finds the entry that was compiled for such arguments. Python is asked
 * about fingerprints that are not known yet (``NotImplemented``), and teaches them.
 *
 * Only functions of Python's stable ABI are called, so that one library serves every version; no
 * header of Python or NumPy is needed. The leading fields of arrays and dtypes are those of
 * NumPy's public structures; ``native.library`` compares them with an array before it trusts them.
 */

typedef long long word;
typedef struct object { long references; void *type; } object;
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
    unsigned long long flags;
    word item_size;
} dtype;
typedef struct { const char *name; object *(*function)(object *, object *); int flags; const char *doc; } method;

extern object _Py_NotImplementedStruct, _Py_NoneStruct;
extern object *PyExc_MemoryError, *PyExc_TypeError;
extern object *PyBool_FromLong(long);
extern object *PyCapsule_New(void *, const char *, void *);
extern void *PyCapsule_GetPointer(object *, const char *);
extern object *PyCFunction_NewEx(method *, object *, object *);
extern object *PyCFunction_GetSelf(object *);
extern void *PyErr_Occurred(void);
extern void PyErr_Clear(void);
extern object *PyErr_Format(object *, const char *, ...);
extern void *PyEval_SaveThread(void);
extern void PyEval_RestoreThread(void *);
extern double PyFloat_AsDouble(object *);
extern object *PyFloat_FromDouble(double);
extern word PyLong_AsLongLong(object *);
extern unsigned long long PyLong_AsUnsignedLongLongMask(object *);
extern object *PyLong_FromLongLong(word);
extern int PyObject_IsTrue(object *);
extern object *PyTuple_GetItem(object *, word);
extern object *PyTuple_New(word);
extern int PyTuple_SetItem(object *, word, object *);
extern word PyTuple_Size(object *);
extern unsigned long PyType_GetFlags(void *);
extern void Py_IncRef(object *);

extern void *malloc(unsigned long);
extern void *realloc(void *, unsigned long);
extern void free(void *);
extern void *memcpy(void *, const void *, unsigned long);
extern int memcmp(const void *, const void *, unsigned long);
extern char *strdup(const char *);

#define EXPORTED __attribute__((visibility("default")))
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

/* What the types of arguments mean, as Python gives them to ``gpuens_start``. */
static struct { void *type; char meaning; } known[MOST_TYPES];
static int n_known;

typedef struct entry {
    struct entry *next;
    int (*function)(word *);
    char result;
    unsigned long n_bytes;
    word fingerprint[];
} entry;

/* A kernel: its entries, the latest first. They are never freed, so that a thread may walk over
 * them while another one adds an entry. */
typedef struct { const char *name; entry *first; } kernel;

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

static object *not_here(void) {
    Py_IncRef(&_Py_NotImplementedStruct);
    return &_Py_NotImplementedStruct;
}

static object *returned(const kernel *k, const entry *e, int status, word *values) {
    union { word bits; double number; } x = {.bits = values[0]};
    if (status != DONE && status != DONE_NONE)
        return PyErr_Format(PyExc_MemoryError, "%s could not allocate its scratch (status %d).",
                            k->name, status);
    switch (e->result) {
    case 'd': return PyFloat_FromDouble(x.number);
    case 'i': return PyLong_FromLongLong(x.bits);
    case 'b': return PyBool_FromLong(x.bits & 1);
    }
    Py_IncRef(&_Py_NoneStruct);
    return &_Py_NoneStruct;
}

/* A kernel as Python calls it: ``NotImplemented`` where no entry fits the arguments. */
static object *call_kernel(object *self, object *arguments) {
    kernel *k = PyCapsule_GetPointer(self, 0);
    call c;
    if (!read_arguments(&c, arguments, 0)) return not_here();
    unsigned long n_bytes = (c.fingerprint - c.fingerprints) * sizeof(word);
    entry *e = __atomic_load_n(&k->first, __ATOMIC_ACQUIRE);
    while (e && !(e->n_bytes == n_bytes && !memcmp(e->fingerprint, c.fingerprints, n_bytes)))
        e = e->next;
    if (!e) return not_here();
    void *state = PyEval_SaveThread();
    int status = e->function(c.values);
    PyEval_RestoreThread(state);
    return returned(k, e, status, c.values);
}

static method definition = {"kernel", call_kernel, FIXED_ARGUMENTS, 0};

/* Say what a type of arguments means. */
EXPORTED void gpuens_know(object *type, char meaning) {
    for (int i = 0; i < n_known; i++)
        if (known[i].type == type) return;
    if (n_known == MOST_TYPES) return;
    Py_IncRef(type);
    known[n_known].meaning = meaning;
    known[n_known++].type = type;
}

/* Return a kernel without entries. */
EXPORTED object *gpuens_kernel(const char *name) {
    kernel *k = malloc(sizeof(kernel));
    if (!k) return PyErr_Format(PyExc_MemoryError, "out of memory");
    k->first = 0;
    k->name = strdup(name);
    return PyCFunction_NewEx(&definition, PyCapsule_New(k, 0, 0), 0);
}

/* Let a kernel call a function for arguments like these; 0 where they cannot be read. */
EXPORTED int gpuens_learn(object *function, object *arguments, int (*entry_of)(word *), char result) {
    kernel *k = PyCapsule_GetPointer(PyCFunction_GetSelf(function), 0);
    call c;
    if (!read_arguments(&c, arguments, 1)) return 0;
    unsigned long n_bytes = (c.fingerprint - c.fingerprints) * sizeof(word);
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
    if (!read_arguments(&c, arguments, 0)) { Py_IncRef(&_Py_NoneStruct); return &_Py_NoneStruct; }
    word n = c.value - c.values;
    object *words = PyTuple_New(n);
    for (word i = 0; words && i < n; i++)
        PyTuple_SetItem(words, i, PyLong_FromLongLong(c.values[i]));
    return words;
}

/* What compiled code asks of Numba's runtime for the arrays and lists that it creates: a header with
 * the count of references first and the data fourth. Those of arrays follow their header; those of
 * lists, which grow, are apart. */
#define HIDDEN __attribute__((visibility("hidden")))
typedef struct {
    word references;
    word is_list;
    void (*destructor)(void *);
    void *data;
    unsigned long size;
    void *allocator;
} memory;

HIDDEN void *NRT_MemInfo_alloc_aligned(unsigned long size, unsigned align) {
    memory *m = malloc(sizeof(memory) + align + size);
    if (!m) return 0;
    unsigned long data = (unsigned long)(m + 1);
    *m = (memory){.references = 1, .size = size};
    m->data = (void *)((data + align - 1) / align * align);
    return m;
}

HIDDEN void *NRT_MemInfo_new_varsize_dtor(unsigned long size, void (*destructor)(void *)) {
    memory *m = malloc(sizeof(memory));
    void *data = malloc(size);
    if (!m || !data) { free(m); free(data); return 0; }
    *m = (memory){1, 1, destructor, data, size, 0};
    return m;
}

HIDDEN void *NRT_MemInfo_varsize_realloc(memory *m, unsigned long size) {
    void *data = realloc(m->data, size);
    if (!data) return 0;
    m->size = size;
    return m->data = data;
}

HIDDEN void NRT_MemInfo_call_dtor(memory *m) {
    if (m->destructor) m->destructor(m->data);
    if (m->is_list) free(m->data);
    free(m);
}
